"""`clusterkit wait`, `down`, `kill`, `pause`, `unpause` and `restart`: act on a live run, or wait for its end."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from clusterkit.cli.addressing import LIVE_OR_NEWEST, OnRun, OnTasks, choose, end_waiter, live_run, tasks_of
from clusterkit.cli.help import DURATION, Parsed, json_option, option
from clusterkit.cli.terminal import echo, echo_json
from clusterkit.ledger.takeover import result_of
from clusterkit.store.cleaning import can_continue
from clusterkit.store.control import Client, NotLive, signal_guardian
from clusterkit.store.journal import RunEndWaiter, follow
from clusterkit.text.printable import printable
from clusterkit.words import wire
from clusterkit.words.errors import ClusterkitError

if TYPE_CHECKING:
    from clusterkit.cli.snapshot import RunSnapshot

RESTART_TIMEOUT = 60.0  # seconds; the time that tasks get to restart, in addition to the grace period
ANSWER_WITHIN = 3.0  # seconds; the time that a supervisor has to answer


def _signal(text: str) -> int:
    """Parse a signal, such as `TERM`, `SIGTERM` or `15`."""
    name = text.upper()
    if name.isdecimal() and 1 <= int(name) <= 64:
        return int(name)
    try:
        return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"].value
    except KeyError:
        raise ValueError(f"{text!r} is not a signal. Write TERM, SIGTERM or 15.") from None


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
@option("-s", "--signal", "number", type=Parsed("signal", _signal), default="KILL", metavar="SIG", help="The signal.")
@json_option
def kill(number: int, run: str | None, tasks: tuple[str, ...], as_json: bool) -> None:
    """Send a signal to every process of the tasks. The run handles the outcome as it would any other failure.

    TASK is worker:1, worker (all workers) or all (all tasks). RUN is a run id or its beginning.
    """
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    answer = _request(run, "kill", tasks, signal=number)
    _print_answer(answer, as_json, f"got {name}")


@click.command("pause", cls=OnTasks, required=True, examples=[("pause ps:0", "Pause a task.")])
@json_option
def pause(run: str | None, tasks: tuple[str, ...], as_json: bool) -> None:
    """Pause tasks with SIGSTOP. They keep their memory and connections, but make no progress."""
    answer = _request(run, "pause", tasks)
    _print_answer(answer, as_json, "is paused")


@click.command("unpause", cls=OnTasks, required=True, examples=[("unpause all", "Resume every paused task.")])
@json_option
def unpause(run: str | None, tasks: tuple[str, ...], as_json: bool) -> None:
    """Resume paused tasks. If a fault has stopped a task as well, the task resumes when the fault ends."""
    answer = _request(run, "unpause", tasks)
    _print_answer(answer, as_json, "resumed")


@click.command("restart", cls=OnTasks, required=True, examples=[("restart worker:1", "Restart a task.")])
@click.option("--no-wait", is_flag=True, help="Return without waiting for the tasks to restart.")
@json_option
def restart(run: str | None, tasks: tuple[str, ...], no_wait: bool, as_json: bool) -> None:
    """Restart tasks, together with the tasks in their restart scope. This does not count against the restart budget."""
    from clusterkit.cli.snapshot import RunSnapshot

    snapshot = RunSnapshot(choose(run, finished=False))
    attempts = {str(task): of.attempt for task, of in snapshot.status.tasks.items()}
    answer = _request(snapshot.run.run_id, "restart", tasks)
    if not no_wait:
        _wait_for_attempts(snapshot, {name: attempts.get(name, 0) + 1 for name in answer["tasks"]})
    _print_answer(answer, as_json, "is restarting" if no_wait else "restarted")


def _request(run: str | None, verb: str, tasks: tuple[str, ...], **more: Any) -> dict[str, Any]:
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
    """Wait until each task is running an attempt with at least the number in `wanted`. Raises ClusterkitError."""
    late = list(wanted)
    patience = RESTART_TIMEOUT + (look.info.job.limits.grace if look.info else 0)
    try:
        for _ in follow(look.refresh, RunEndWaiter(look.run).is_over, timeout=patience):
            task_states = {str(task): of for task, of in look.status.tasks.items()}
            late = [
                name
                for name, attempt in wanted.items()
                if (of := task_states.get(name)) is None or of.attempt < attempt or not of.started
            ]
            if not late:
                return
    except TimeoutError:
        raise ClusterkitError(f"{', '.join(late)} did not restart in time. See `clusterkit ps`.") from None
    raise ClusterkitError(f"The run {look.run.run_id} ended before {', '.join(late)} restarted.")


@click.command("wait", cls=OnRun, usual=LIVE_OR_NEWEST, examples=[("wait --json", "")])
@json_option
def wait(run: str | None, as_json: bool) -> None:
    """Wait until a run ends, and exit with its exit code."""
    chosen = choose(run, finished=True)
    end_waiter(chosen).is_over()
    result = result_of(chosen)
    code = 1 if result is None else result.exit_code
    state = "lost" if result is None else result.word
    ended = "was lost" if result is None else result.ended
    if as_json:
        missed = [] if result is None else wire.encode(result.not_injected)
        held = [] if result is None else wire.encode(result.reservations)
        about = {"run_id": chosen.run_id, "state": state, "exit_code": code}
        echo_json({**about, "reservations": held, "not_injected": missed})
    else:
        echo(f"The run {chosen.run_id} {ended} (exit code {code}).")
        if result is not None and result.reservations:
            echo(printable(f"{result.reason}."))
        for one in () if result is None else result.not_injected:
            echo(printable(f"Never injected: {one.fault}: {one.why}."))
    sys.exit(code)


@click.command(
    "down",
    cls=OnRun,
    examples=[("down", "Stop the newest live run."), ("down --kill 2026", "At once, given the beginning of its id.")],
)
@option("--kill", is_flag=True, help="Skip the grace period.")
@option(
    "-t",
    "--timeout",
    type=DURATION,
    help="Kill tasks that are still running after this time.",
    show_default="the run's grace period",
)
@json_option
def down(run: str | None, kill: bool, timeout: float | None, as_json: bool) -> None:
    """Stop a live run: send SIGTERM to each task, and SIGKILL to tasks still running after the grace period."""
    chosen = live_run(run)
    was_live, life = chosen.is_live(), RunEndWaiter(chosen)
    try:
        with Client(chosen, ANSWER_WITHIN) as client:
            client.call("down", force=kill)
            if not life.is_over(timeout):
                client.call("down", force=True)
    except NotLive:
        # Either the run has ended, or its supervisor does not answer; in the latter case, the guardian ends the run.
        if not life.is_over(1.0) and not signal_guardian(chosen, kill or timeout is not None):
            raise
    life.is_over()
    result = result_of(chosen)
    if as_json:
        echo_json({"run_id": chosen.run_id, "was_live": was_live, "state": "lost" if result is None else result.word})
    elif was_live:
        echo(f"The run {chosen.run_id} was stopped.")
    elif can_continue(chosen):
        run_id = chosen.run_id
        echo(
            f"The run {run_id} is not live, so no task was ended. It has not ended for good: "
            f"`up --run-id {run_id} --continue` continues it, `clusterkit rm --force {run_id}` removes it."
        )
    else:
        echo(f"The run {chosen.run_id} had already ended.")
