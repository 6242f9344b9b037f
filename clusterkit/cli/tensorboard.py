"""`clusterkit tensorboard`."""

from __future__ import annotations

import queue
import signal

import click

from clusterkit.cli.errors import exit_on_error
from clusterkit.cli.params import run_argument
from clusterkit.cli.terminal import echo


@click.command("tensorboard")
@run_argument
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Where it listens. [a free port]")
def command(run: str | None, port: int) -> None:
    """Show a run in TensorBoard, live or over, until Ctrl-C is pressed.

    Beside what its tasks wrote, it shows what clusterkit knows of them: steps, steps a second and reported metrics,
    and, as long as the run is live, the use of CPU and memory. It listens for this machine alone (127.0.0.1).
    """
    from clusterkit.client.store import RunStore
    from clusterkit.job.preflight import tensorboard_problems
    from clusterkit.tensorboard.process import TensorBoard
    from clusterkit.words.errors import BadJob, ClusterkitError
    from clusterkit.words.events import Crashed, TensorBoardLost, TensorBoardReady

    happened = queue.SimpleQueue[TensorBoardReady | TensorBoardLost | Crashed]()
    with exit_on_error():
        chosen = RunStore().choose(run, finished=True)
        if problems := tensorboard_problems():
            raise BadJob(problems)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        board = TensorBoard(chosen, happened.put, port)
        try:
            while isinstance(event := happened.get(), TensorBoardReady):
                echo(f"TensorBoard of the run {chosen.run_id} answers at {event.address} until Ctrl-C is pressed.")
            why = event.error if isinstance(event, Crashed) else event.why
            raise ClusterkitError(f"There is no TensorBoard: {why}.")
        except KeyboardInterrupt:
            return
        finally:
            board.stop()
