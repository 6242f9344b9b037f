"""`clusterkit kill`, `pause`, `unpause` and `restart`: what acts on tasks, through the machine of the live run."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import click

from clusterkit.cli.errors import exit_on_error
from clusterkit.cli.params import echo_json, json_option, run_option, tasks_argument, tasks_of
from clusterkit.cli.terminal import echo

if TYPE_CHECKING:
    from clusterkit.cli.looking import RunSnapshot

RESTART_PATIENCE = 60.0  # seconds beyond the grace period for tasks that were told to restart


class SignalName(click.ParamType[int]):
    """A signal: `TERM`, `SIGTERM` or `15`."""

    name = "signal"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).upper()
        if text.isdecimal() and 1 <= int(text) <= 64:
            return int(text)
        try:
            return signal.Signals[text if text.startswith("SIG") else f"SIG{text}"].value
        except KeyError:
            self.fail(f"{value!r} is not a signal. Write TERM, SIGTERM or 15.", param, ctx)


@click.command("kill")
@click.option("-s", "--signal", "number", type=SignalName(), default="KILL", metavar="SIG", help="[KILL]")
@run_option
@tasks_argument
@json_option
def kill(number: int, run: str | None, tasks: tuple[str, ...], as_json: bool) -> None:
    """Signal every process of tasks. What comes of it is for the run to deal with, as with any other death.

    TASK is worker:1, worker for every worker, or all.
    """
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    answer = _ask(run, "kill", tasks, signal=number)
    _print(answer, as_json, f"got {name}")


@click.command("pause")
@run_option
@tasks_argument
@json_option
def pause(run: str | None, tasks: tuple[str, ...], as_json: bool) -> None:
    """Stop tasks with SIGSTOP: they keep their memory and their connections, and do nothing."""
    answer = _ask(run, "pause", tasks)
    _print(answer, as_json, "is paused")


@click.command("unpause")
@run_option
@tasks_argument
@json_option
def unpause(run: str | None, tasks: tuple[str, ...], as_json: bool) -> None:
    """Continue paused tasks. A task that a fault stops as well continues when the fault is over."""
    answer = _ask(run, "unpause", tasks)
    _print(answer, as_json, "goes on")


@click.command("restart")
@run_option
@tasks_argument
@click.option("--no-wait", is_flag=True, help="Return when it is asked for, not when the tasks are started.")
@json_option
def restart(run: str | None, tasks: tuple[str, ...], no_wait: bool, as_json: bool) -> None:
    """End tasks and start them again, with those that have to restart beside them. Not charged to the budget."""
    from clusterkit.cli.looking import RunSnapshot
    from clusterkit.client.store import RunStore

    with exit_on_error():
        look = RunSnapshot(RunStore().choose(run, finished=False))
    before = {str(task): of.attempt for task, of in look.status.tasks.items()}
    answer = _ask(look.run.run_id, "restart", tasks)
    if not no_wait:
        with exit_on_error():
            _wait_for_attempts(look, {name: before.get(name, 0) + 1 for name in answer["tasks"]})
    _print(answer, as_json, "starts again" if no_wait else "is started again")


def _ask(run: str | None, verb: str, tasks: tuple[str, ...], **more: Any) -> dict[str, Any]:
    from clusterkit.client.control import Client
    from clusterkit.client.store import RunStore

    with exit_on_error():
        chosen = RunStore().choose(run, finished=False)
        with Client(chosen) as client:
            return client.call(verb, tasks=tasks_of(chosen, tasks), **more)


def _print(answer: dict[str, Any], as_json: bool, what: str) -> None:
    if as_json:
        echo_json(answer)
        return
    for task in answer["tasks"]:
        echo(f"{task} {what}.")


def _wait_for_attempts(look: RunSnapshot, wanted: dict[str, int]) -> None:
    """Until each task has a process of that attempt or a later one. Raises ClusterkitError."""
    from clusterkit.client.follow import Life, follow
    from clusterkit.words.errors import ClusterkitError

    late = list(wanted)
    patience = RESTART_PATIENCE + (look.info.job.limits.grace if look.info else 0)
    try:
        for _ in follow(look.refresh, Life(look.run).is_over, timeout=patience):
            known = {str(task): of for task, of in look.status.tasks.items()}
            late = [name for name, attempt in wanted.items() if known[name].attempt < attempt or not known[name].pid]
            if not late:
                return
    except TimeoutError:
        raise ClusterkitError(f"{', '.join(late)} did not start again in time. See `clusterkit ps`.") from None
    raise ClusterkitError(f"The run {look.run.run_id} ended before {', '.join(late)} could be started again.")
