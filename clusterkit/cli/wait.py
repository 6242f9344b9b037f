"""`clusterkit wait` and `clusterkit down`: both return when the run has ended."""

from __future__ import annotations

import sys

import click

from clusterkit.cli.addressing import LIVE_OR_NEWEST, OnRun, choose, end_waiter, live_run
from clusterkit.cli.help import option
from clusterkit.cli.options import Duration
from clusterkit.cli.params import echo_json, json_option
from clusterkit.cli.terminal import echo, exit_on_error

ANSWER_WITHIN = 3.0  # seconds that a supervisor has to answer


@click.command("wait", cls=OnRun, usual=LIVE_OR_NEWEST, examples=[("wait --json", "")])
@json_option
def wait(run: str | None, as_json: bool) -> None:
    """Wait until a run ends, and exit with its exit code."""
    from clusterkit.text.printable import printable
    from clusterkit.words import wire

    with exit_on_error():
        chosen = choose(run, finished=True)
    end_waiter(chosen).is_over()
    result = chosen.result()
    code = 1 if result is None else result.exit_code
    state = "lost" if result is None else result.word
    if as_json:
        missed = [] if result is None else wire.encode(result.not_injected)
        echo_json({"run_id": chosen.run_id, "state": state, "exit_code": code, "not_injected": missed})
    else:
        echo(f"The run {chosen.run_id} {'was lost' if state == 'lost' else state} (exit code {code}).")
        for one in () if result is None else result.not_injected:
            echo(printable(f"Never injected: {one.fault}: {one.why}."))
    sys.exit(code)


@click.command(
    "down",
    cls=OnRun,
    examples=[("down", "Stop the newest live run."), ("down --kill 2026", "At once, by the beginning of its id.")],
)
@option("--kill", is_flag=True, help="Skip the grace period.")
@option(
    "-t",
    "--timeout",
    type=Duration(),
    help="Kill what still runs after this time.",
    show_default="the run's grace period",
)
@json_option
def down(run: str | None, kill: bool, timeout: float | None, as_json: bool) -> None:
    """Stop a live run: each task gets SIGTERM, and SIGKILL when its grace period is over."""
    from clusterkit.store.control import Client, NotLive, signal_guardian
    from clusterkit.store.journal import RunEndWaiter

    with exit_on_error():
        chosen = live_run(run)
        was_live, life = chosen.is_live(), RunEndWaiter(chosen)
        try:
            with Client(chosen, ANSWER_WITHIN) as client:
                client.call("down", force=kill)
                if not life.is_over(timeout):
                    client.call("down", force=True)
        except NotLive:
            # Either the run has ended, or its supervisor does not answer; in that case, the guardian ends the run.
            if not life.is_over(1.0) and not signal_guardian(chosen, kill or timeout is not None):
                raise
    life.is_over()
    result = chosen.result()
    if as_json:
        echo_json({"run_id": chosen.run_id, "was_live": was_live, "state": "lost" if result is None else result.word})
    else:
        echo(f"The run {chosen.run_id} {'was stopped' if was_live else 'had already ended'}.")
