"""Shows a live run from its files: the tasks' output and the events, on a console of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from clusterkit.client.arrivals import Arrivals, Piece
from clusterkit.client.directory import RunDirectory
from clusterkit.client.journal import JournalReader, Stamped
from clusterkit.recovery.reading import report_of, result_of
from clusterkit.views.console import Console, Show
from clusterkit.views.narrate import Level, is_bad, sentence
from clusterkit.views.report import report
from clusterkit.words.events import Drained, Event


class LiveConsole:
    """Shows new output and events, after the last `tail` lines of earlier output."""

    def __init__(self, run: RunDirectory, show: Show, level: Level, tail: int) -> None:
        self.run = run
        self._show, self._level = show, level
        info = run.info()
        self._arrivals, self._journal = Arrivals(run), JournalReader(run)
        seen = self._journal.newest()
        before = [piece for piece in self._arrivals.new() if show.wants(piece.task)]
        self.console = Console(sys.stdout.fileno(), info.job.tasks if info else (), show)
        for at, event in seen:
            self.console.see(at, event)
        for piece in self._arrivals.last_lines(before, tail) if tail else ():
            self._output(piece)

    def show(self) -> None:
        """Show what is new, in the order of time."""
        events = self._journal.events()
        new: Sequence[Piece | Stamped] = [*self._arrivals.new(), *events]
        for item in sorted(new, key=lambda item: item[0]):
            if isinstance(item, Piece):
                self._output(item)
            else:
                self.console.see(*item)
                self._tell(item[1])

    def end(self) -> int:
        """Show the report of the finished run; return its exit code."""
        for piece in self._arrivals.rest():
            self._output(piece)
        result = result_of(self.run)
        if result is None:
            self.console.say("The run's supervisor was killed.", bad=True)
        else:
            self.console.block(report(result, self.run, self._show.color, recovered=report_of(self.run)))
        self.console.close()
        return 1 if result is None else result.exit_code

    def _output(self, piece: Piece) -> None:
        self.console.output(piece.task, piece.attempt, self._arrivals.read(piece))

    def _tell(self, event: Event) -> None:
        if isinstance(event, Drained):
            self.console.output(event.task, event.attempt, b"")
        told = sentence(event)
        if told is not None and told[0] >= self._level:
            self.console.say(told[1], bad=is_bad(event))
