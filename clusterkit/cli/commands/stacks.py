"""`clusterkit stacks` and `profile`: show what the tasks of a live run are doing now, and in their next steps."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import click

from clusterkit.cli.addressing import OnTasks, live_run, tasks_of
from clusterkit.cli.help import DURATION, json_option, option
from clusterkit.cli.terminal import echo, echo_json
from clusterkit.store.control import Client
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader, RunEndWaiter, follow
from clusterkit.views.narrate import sentence
from clusterkit.words.events import Event, Exited, Profiled
from clusterkit.words.model import Task

WRITTEN_WITHIN = 30.0  # seconds; the time that tasks get to write their profiles after --timeout


@click.command("stacks", cls=OnTasks, examples=[("stacks", "Every task."), ("stacks worker:1 ps:0", "")])
@option("--timeout", type=DURATION, default="3s", help="How long to wait for the stacks.")
@json_option
def stacks(run: str | None, tasks: tuple[str, ...], timeout: float, as_json: bool) -> None:
    """Show the Python stack of every thread in the tasks, without disturbing the tasks."""
    from clusterkit.backends.local.stacks import collect, dumps_of
    from clusterkit.cli.snapshot import RunSnapshot

    chosen = live_run(run)
    with Client(chosen) as client:
        answer = client.call("stacks", tasks=tasks_of(chosen, tasks))
    seen = RunSnapshot(chosen).status.tasks
    asked = map(Task.parse, answer["tasks"])
    attempts = {task: seen[task].attempt for task in asked if task in seen}  # the journal may be damaged
    dumps = dumps_of(chosen, attempts.items(), answer["request"])
    collect(list(dumps.values()), timeout)
    if as_json:
        echo_json({str(task): dump.text or None for task, dump in dumps.items()})
        return
    for task, dump in dumps.items():
        echo(f"{task} (attempt {attempts[task]})\n{dump.text}" if dump.text else f"{task} {dump.silence}\n")


@click.command(
    "profile",
    cls=OnTasks,
    examples=[("profile worker:1", "The next 20 steps of one task."), ("profile --steps 5", "")],
)
@option("--steps", type=click.IntRange(min=1), default=20, metavar="N", help="Number of steps to profile.")
@option("--timeout", type=DURATION, default="30s", help="Stop after this time, even after fewer steps.")
@json_option
def profile(run: str | None, steps: int, timeout: float, tasks: tuple[str, ...], as_json: bool) -> None:
    """Write TensorBoard profiles of tasks that are training. The program has to use clusterkit.training.

    A profile starts at the next step that a task reports and ends N steps later. In a parameter-server job, workers and
    ps report no steps, so their profiles last as long as the coordinator's. To show profiles, TensorBoard needs the
    package tensorboard-plugin-profile.
    """
    chosen = live_run(run)
    journal = JournalReader(chosen)
    journal.skip()
    with Client(chosen) as client:
        answer = client.call("profile", tasks=tasks_of(chosen, tasks), steps=steps, seconds=timeout)
    answers = Answers(answer["request"], {Task.parse(name) for name in answer["tasks"]})
    _collect(chosen, journal, answers, timeout + WRITTEN_WITHIN)
    if as_json:
        echo_json({str(one.task): {"path": one.path, "steps": one.steps, "why": one.why} for one in answers.in_order})
    for said in () if as_json else map(sentence, answers.in_order):
        echo(said[1] if said else "")
    sys.exit(not any(one.path for one in answers.in_order))


def _collect(run: RunDirectory, journal: JournalReader, answers: Answers, patience: float) -> None:
    """Wait until every task has answered, the run has ended, or `patience` seconds have passed."""
    problem = "the run ended before that"
    try:
        for events in follow(journal.events, RunEndWaiter(run).is_over, timeout=patience):
            for _, event in events:
                answers.take(event)
            if not answers.waiting:
                return
    except TimeoutError:
        problem = "it does not answer; is it paused?"
    answers.close(problem)


@dataclass(slots=True)
class Answers:
    """The tasks' answers to a request for profiles."""

    request: int
    waiting: set[Task]
    given: dict[Task, Profiled] = field(default_factory=dict)

    def take(self, event: Event) -> None:
        """Process an event. A task that exits before it answers gives no profile."""
        if isinstance(event, Profiled) and event.request == self.request:
            self._give(event)
        elif isinstance(event, Exited) and event.task in self.waiting:
            self._give(Profiled(event.task, event.attempt, self.request, None, why="it ended before that"))

    def close(self, why: str) -> None:
        """Stop waiting: for each task that has not answered, record that it gave no profile, and the reason `why`."""
        for task in list(self.waiting):
            self._give(Profiled(task, 0, self.request, None, why=why))

    @property
    def in_order(self) -> list[Profiled]:
        """The answers, sorted by task."""
        return [self.given[task] for task in sorted(self.given)]

    def _give(self, event: Profiled) -> None:
        if event.task in self.waiting:
            self.waiting.remove(event.task)
            self.given[event.task] = event
