"""`clusterkit tensorboard`."""

from __future__ import annotations

import queue
import signal

import click

from clusterkit.cli.addressing import LIVE_OR_NEWEST, OnRun, choose
from clusterkit.cli.help import option
from clusterkit.cli.terminal import echo, exit_on_error


@click.command("tensorboard", cls=OnRun, usual=LIVE_OR_NEWEST, examples=[("tensorboard --port 6006", "")])
@option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="The port to listen on.",
    show_default="a free port",
)
def command(run: str | None, port: int) -> None:
    """Show a live or finished run in TensorBoard until Ctrl-C is pressed.

    In addition to what the tasks wrote, it shows what clusterkit recorded: steps, steps per second, reported metrics
    and, while the run is live, CPU and memory usage. It listens on 127.0.0.1, and answers programs of yours only.
    """
    from clusterkit.job.preflight import tensorboard_problems
    from clusterkit.tensorboard.companion import start_tensorboard
    from clusterkit.words.errors import BadJob, ClusterkitError
    from clusterkit.words.events import Crashed, TensorBoardLost, TensorBoardReady

    happened = queue.SimpleQueue[TensorBoardReady | TensorBoardLost | Crashed]()
    with exit_on_error():
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
