"""`clusterkit profile`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from clusterkit.cli.addressing import OnTasks, live_run
from clusterkit.cli.help import option
from clusterkit.cli.options import Duration
from clusterkit.cli.params import echo_json, json_option, tasks_of
from clusterkit.cli.terminal import echo, exit_on_error

if TYPE_CHECKING:
    from clusterkit.store.directory import RunDirectory
    from clusterkit.store.journal import JournalReader
    from clusterkit.views.profiles import Answers

WRITTEN_WITHIN = 30.0  # seconds; the time that tasks get to write their profiles after --timeout


@click.command(
    "profile",
    cls=OnTasks,
    examples=[("profile worker:1", "The next 20 steps of one task."), ("profile --steps 5", "")],
)
@option("--steps", type=click.IntRange(min=1), default=20, metavar="N", help="Number of steps to profile.")
@option("--timeout", type=Duration(), default="30s", help="Stop after this time, even with fewer steps.")
@json_option
def command(run: str | None, steps: int, timeout: float, tasks: tuple[str, ...], as_json: bool) -> None:
    """Write a TensorBoard profile of tasks while they train, for programs that use clusterkit.training.

    A profile starts at the next step that a task reports and ends N steps later. Workers and ps of a parameter-server
    job report no steps: their profiles last as long as the coordinator's. To show profiles, TensorBoard needs the
    package tensorboard-plugin-profile.
    """
    from clusterkit.store.control import Client
    from clusterkit.store.journal import JournalReader
    from clusterkit.views.narrate import sentence
    from clusterkit.views.profiles import Answers
    from clusterkit.words.model import Task

    with exit_on_error():
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
    from clusterkit.store.journal import RunEndWaiter, follow

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
