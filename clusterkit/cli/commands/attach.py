"""`clusterkit attach`: shows a live run on this terminal, by reading the run's files."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

import click

from clusterkit.cli.addressing import OnTasks, choose, end_waiter, tasks_shown
from clusterkit.cli.help import option
from clusterkit.cli.options import display_options
from clusterkit.cli.terminal import say, status_group, use_color
from clusterkit.ledger.ledger import Ledger
from clusterkit.ledger.takeover import account_of, result_of
from clusterkit.store.arrivals import Arrivals, Piece
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader, Stamped, events_of, follow
from clusterkit.views.console import Console, Show
from clusterkit.views.narrate import Level
from clusterkit.views.report import report
from clusterkit.words.events import Drained, Event


class LiveConsole:
    """Shows the last `tail` lines of earlier output, then new output and events."""

    def __init__(self, run: RunDirectory, show: Show, level: Level, tail: int) -> None:
        self.run = run
        self._show, self._level = show, level
        info = run.info()
        self._arrivals, self._journal = Arrivals(run), JournalReader(run)
        seen = events_of(self._journal.newest())
        before = [piece for piece in self._arrivals.new() if show.wants(piece.task)]
        self.console = Console(sys.stdout.fileno(), info.job.tasks if info else (), show)
        self._ledger = Ledger(info.job if info else None)
        self._status_line = self.console.follow(self._ledger.run)
        for at, event in seen:
            self._handle(at, event)
        for piece in self._arrivals.last_lines(before, tail) if tail else ():
            self._output(piece)

    def show(self) -> None:
        """Show new output and events in chronological order."""
        events = self._journal.events()
        new: Sequence[Piece | Stamped] = [*self._arrivals.new(), *events]
        for item in sorted(new, key=lambda item: item[0]):
            if isinstance(item, Piece):
                self._output(item)
            else:
                self._handle(*item)
                self._narrate(item[1])

    def end(self) -> int:
        """Show the report of the finished run; return its exit code."""
        for piece in self._arrivals.rest():
            self._output(piece)
        result = result_of(self.run)
        if result is None:
            self.console.say("The run's supervisor was killed.", bad=True)
        else:
            self.console.block(report(result, self.run, self._show.color, recovered=account_of(self.run)))
        self.console.close()
        return 1 if result is None else result.exit_code

    def _output(self, piece: Piece) -> None:
        self.console.output(piece.task, piece.attempt, self._arrivals.read(piece))

    def _handle(self, at: float, event: Event) -> None:
        with self._status_line:
            self._ledger.add(at, event)

    def _narrate(self, event: Event) -> None:
        if isinstance(event, Drained):
            self.console.output(event.task, event.attempt, b"")
        self.console.tell(event, self._level)


@click.command(
    "attach",
    cls=OnTasks,
    examples=(
        ("attach", "Show the newest live run."),
        ("attach -n 20 worker:1", "Show one task, and its last 20 lines first."),
    ),
)
@option("-n", "--tail", type=click.IntRange(min=0), default=0, metavar="N", help="Show the last N lines first.")
@display_options
def command(
    run: str | None, tasks: tuple[str, ...], tail: int, all_output: bool, log_level: str, quiet: bool,
    color: bool | None,
) -> None:  # fmt: skip
    """Show a live run as `up` does. When the run ends, exit with the run's exit code.

    With TASKs, only their output is shown. Ctrl-C detaches; the run continues.
    """
    level = Level.WARNING if quiet else Level[log_level.upper()]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    chosen = choose(run, finished=False)
    only = frozenset(map(str, tasks_shown(chosen, tasks))) if tasks else frozenset[str]()
    show = Show(tasks=not quiet, only=only, noise=all_output, color=use_color(color), group=status_group(quiet))
    watched = LiveConsole(chosen, show, level, tail)
    sys.exit(_until_over(watched))


def _until_over(watched: LiveConsole) -> int:
    try:
        for _ in follow(watched.show, end_waiter(watched.run).is_over):
            pass
        return watched.end()
    except KeyboardInterrupt:
        watched.console.close()
        name = watched.run.run_id
        say(f"the run {name} continues. Stop it with `clusterkit down {name}`.")
        return 0
