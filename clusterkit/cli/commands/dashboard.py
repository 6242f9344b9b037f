"""`clusterkit dashboard` and `tensorboard`: show runs in a browser until Ctrl-C is pressed."""

from __future__ import annotations

import queue
import signal

import click

from clusterkit.cli.addressing import LIVE_OR_NEWEST, OnRun, choose
from clusterkit.cli.help import option, port_option
from clusterkit.cli.terminal import echo, shown_address
from clusterkit.job.preflight import dashboard_problems, tensorboard_problems
from clusterkit.store.store import RunStore
from clusterkit.words.errors import BadJob, ClusterkitError
from clusterkit.words.events import Crashed, TensorBoardLost, TensorBoardReady


@click.command(
    "dashboard",
    cls=OnRun,
    usual="the list of all runs",
    examples=(("dashboard", "All runs."), ("dashboard --control 2026", "One run, which the page can control.")),
)
@port_option
@option("--control", is_flag=True, help="Let the page stop runs, kill, pause and restart tasks, and inject faults.")
def dashboard(run: str | None, port: int, control: bool) -> None:
    """Show live and finished runs in a browser until Ctrl-C is pressed.

    The server listens on 127.0.0.1 only. To open the page, use the printed address. It has a token, which is another
    one each time the dashboard is started. Where the output is no terminal, a private file has the address with it.
    """
    chosen = None if run is None else choose(run, finished=True)
    if problems := dashboard_problems():
        raise ClusterkitError(problems[0])
    from clusterkit.page.serve import PageServer

    server = PageServer(RunStore(), control, port)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # until uvicorn installs its own handlers
        signal.signal(number, lambda number, frame: server.end())
    what = "all runs" if chosen is None else f"the run {chosen.run_id}"
    place = "/" if chosen is None else f"/run/{chosen.run_id}"
    with server.published(place) as file:
        address = server.address(place)
        shown = shown_address(address, file)
        echo(f"The dashboard shows {what} until Ctrl-C is pressed: {shown}")
        if control and shown == address:
            echo(f"Without control, for somebody who may only see the runs: {server.address(place, reading=True)}")
        server.run()


@click.command("tensorboard", cls=OnRun, usual=LIVE_OR_NEWEST, examples=[("tensorboard --port 6006", "")])
@port_option
def tensorboard(run: str | None, port: int) -> None:
    """Show a live or finished run in TensorBoard until Ctrl-C is pressed.

    In addition to what the tasks wrote, TensorBoard shows what clusterkit recorded: steps, steps per second, reported
    metrics and, while the run is live, CPU and memory usage. It listens on 127.0.0.1, and answers only your own
    programs.
    """
    from clusterkit.tensorboard.companion import start_tensorboard

    happened = queue.SimpleQueue[TensorBoardReady | TensorBoardLost | Crashed]()
    chosen = choose(run, finished=True)
    if problems := tensorboard_problems():
        raise BadJob(problems)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    board = start_tensorboard(chosen, happened.put, port)
    try:
        while isinstance(event := happened.get(), TensorBoardReady):
            echo(f"TensorBoard shows the run {chosen.run_id} at {event.address} until Ctrl-C is pressed.")
        why = event.error if isinstance(event, Crashed) else event.why
        raise ClusterkitError(f"TensorBoard failed: {why}.")
    except KeyboardInterrupt:
        return
    finally:
        board.stop()
