"""`clusterkit kill`, `pause`, `unpause` and `restart`: requests about tasks to a live run."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import click

from clusterkit.cli.addressing import OnTasks, choose, live_run
from clusterkit.cli.help import option
from clusterkit.cli.params import echo_json, json_option, tasks_of
from clusterkit.cli.terminal import echo, exit_on_error

if TYPE_CHECKING:
    from clusterkit.cli.snapshot import RunSnapshot

RESTART_TIMEOUT = 60.0  # seconds; the time that tasks get to restart, in addition to the grace period


class SignalName(click.ParamType[int]):
    """A signal, written `TERM`, `SIGTERM` or `15`."""

    name = "signal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).upper()
        if text.isdecimal() and 1 <= int(text) <= 64:
            return int(text)
        try:
            return signal.Signals[text if text.startswith("SIG") else f"SIG{text}"].value
        except KeyError:
            self.fail(f"{value!r} is not a signal. Write TERM, SIGTERM or 15.", param, ctx)


@click.command(
    "kill",
    cls=OnTasks,
    required=True,
    examples=(
        ("kill worker:1", "Kill one task of the newest live run."),
        ("kill -s term worker", "Send SIGTERM to every worker."),
        ("kill 2026 ps:0", "In the run whose id begins with 2026."),
    ),
)
@option("-s", "--signal", "number", type=SignalName(), default="KILL", metavar="SIG", help="The signal.")
@json_option
def kill(number: int, run: str | None, tasks: tuple[str, ...], as_json: bool) -> None:
    """Send a signal to every process of the tasks. The run handles the outcome as it would any other failure.

    TASK is worker:1, worker for every worker, or all. RUN is a run id or its beginning.
    """
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    answer = _request(run, "kill", tasks, signal=number)
    _print_answer(answer, as_json, f"got {name}")


@click.command("pause", cls=OnTasks, required=True, examples=[("pause ps:0", "Pause a task.")])
@json_option
def pause(run: str | None, tasks: tuple[str, ...], as_json: bool) -> None:
    """Pause tasks with SIGSTOP. They keep their memory and connections, and make no progress."""
    answer = _request(run, "pause", tasks)
    _print_answer(answer, as_json, "is paused")


@click.command("unpause", cls=OnTasks, required=True, examples=[("unpause all", "Resume every paused task.")])
@json_option
def unpause(run: str | None, tasks: tuple[str, ...], as_json: bool) -> None:
    """Resume paused tasks. A task that a fault has stopped as well resumes when that fault ends."""
    answer = _request(run, "unpause", tasks)
    _print_answer(answer, as_json, "resumed")


@click.command("restart", cls=OnTasks, required=True, examples=[("restart worker:1", "Restart a task.")])
@click.option("--no-wait", is_flag=True, help="Return without waiting for the tasks to restart.")
@json_option
def restart(run: str | None, tasks: tuple[str, ...], no_wait: bool, as_json: bool) -> None:
    """Restart tasks, together with those in their restart scope. This does not use up the restart budget."""
    from clusterkit.cli.snapshot import RunSnapshot

    with exit_on_error():
        snapshot = RunSnapshot(choose(run, finished=False))
    attempts = {str(task): of.attempt for task, of in snapshot.status.tasks.items()}
    answer = _request(snapshot.run.run_id, "restart", tasks)
    if not no_wait:
        with exit_on_error():
            _wait_for_attempts(snapshot, {name: attempts.get(name, 0) + 1 for name in answer["tasks"]})
    _print_answer(answer, as_json, "is restarting" if no_wait else "restarted")


def _request(run: str | None, verb: str, tasks: tuple[str, ...], **more: Any) -> dict[str, Any]:
    from clusterkit.store.control import Client

    with exit_on_error():
        chosen = live_run(run)
        with Client(chosen) as client:
            return client.call(verb, tasks=tasks_of(chosen, tasks), **more)


def _print_answer(answer: dict[str, Any], as_json: bool, what: str) -> None:
    if as_json:
        echo_json(answer)
        return
    for task in answer["tasks"]:
        echo(f"{task} {what}.")


def _wait_for_attempts(look: RunSnapshot, wanted: dict[str, int]) -> None:
    """Wait until each task runs its attempt in `wanted` or a later one. Raises ClusterkitError on failure."""
    from clusterkit.store.journal import RunEndWaiter, follow
    from clusterkit.words.errors import ClusterkitError

    late = list(wanted)
    patience = RESTART_TIMEOUT + (look.info.job.limits.grace if look.info else 0)
    try:
        for _ in follow(look.refresh, RunEndWaiter(look.run).is_over, timeout=patience):
            task_states = {str(task): of for task, of in look.status.tasks.items()}
            late = [
                name
                for name, attempt in wanted.items()
                if task_states[name].attempt < attempt or not task_states[name].started
            ]
            if not late:
                return
    except TimeoutError:
        raise ClusterkitError(f"{', '.join(late)} did not restart in time. See `clusterkit ps`.") from None
    raise ClusterkitError(f"The run {look.run.run_id} ended before {', '.join(late)} restarted.")
