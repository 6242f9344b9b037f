"""The console: prints the tasks' output, with a prefix before each line, and the supervisor's messages, in order."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterkit.ledger.status import RunStatus
from clusterkit.system.barrier import exit_on_crash, start_thread
from clusterkit.text.printable import Chunk, encoded, printable_lines
from clusterkit.views.narrate import Level, is_bad, sentence
from clusterkit.views.screen import Screen
from clusterkit.words.events import Crashed, Event, Failed, Spawned
from clusterkit.words.model import Task, TaskType, number_of

if TYPE_CHECKING:  # at run time, these are imported at a task's first output, or only for terminals
    from clusterkit.views.gathering import Gathering
    from clusterkit.views.prefixed import Prefixer
    from clusterkit.views.repeats import ShownTraceback, Twins

BACKLOG = 32 << 20  # the maximum number of bytes that wait for a slow terminal; further lines go only to the log files
PIECE = 1 << 19  # the approximate number of bytes of output per write
SELF = "clusterkit"
_COLORS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)  # codes of the tasks' colors, without red, which is for errors


@dataclass(frozen=True, slots=True)
class Show:
    """Which output of tasks to show, and how."""

    tasks: bool = True
    only: frozenset[str] = frozenset()  # tasks or task types to show, such as `worker:1` or `worker`; empty to show all
    noise: bool = False
    color: bool = False  # whether prefixes and the tasks' output have colors
    group: int | None = None  # the command's process group; None without a status line

    def wants(self, task: Task) -> bool:
        return self.tasks and (not self.only or str(task) in self.only or str(task.type) in self.only)


_HIDDEN = "hidden lines are counted here"
# A chunk of a task's output, an event whose sentence may be joined with other sentences, or text to show unchanged.
_Item = tuple[Task, int, bytes] | Spawned | Failed | str


class Console:
    """Writes whole lines to the terminal in a separate thread. Other threads only append to the console's queue.

    The thread is not a Poller, since the thread must not end before the queue is empty, however slow the terminal is.
    """

    def __init__(
        self, descriptor: int, tasks: Collection[Task], show: Show, post: Callable[[Crashed], None] = exit_on_crash
    ) -> None:
        self._show = show
        self._status: RunStatus | None = None
        self._screen = Screen(descriptor, None if show.group is None else self._status_line, show.group)
        self._width = max([len(SELF), *(len(str(task)) for task in tasks)])
        self._prefixes = {task: prefix(task, self._width, show.color) for task in tasks}
        self._streams: dict[tuple[Task, int], Prefixer] = {}
        self._tracebacks: dict[tuple[str, ...], ShownTraceback] = {}
        self._twins: Twins | None = None
        self._gathering: Gathering | None = None
        # Lines are joined only on a terminal, since programs that read the output expect the lines of every task.
        if show.group is not None and not show.noise:
            self._join_on_terminal()
        self._redrawing: dict[tuple[Task, int], Prefixer] = {}  # attempts whose current line is being redrawn
        self._queue: deque[_Item] = deque()
        self._waiting = 0
        self._flooded = False
        self._cut: set[tuple[Task, int]] = set()  # attempts whose current line is being dropped
        self._dropped = 0
        self._hidden = 0  # the number of lines of noise in attempts that have ended
        self._awake = threading.Condition()
        self._closed = False
        self._thread = start_thread("console", self._run, post)

    def _join_on_terminal(self) -> None:
        """From now on, join equal lines of workers, and sentences about tasks that start or fail in the same way."""
        from clusterkit.views.gathering import Gathering
        from clusterkit.views.repeats import Twins

        self._twins = Twins(_prefix("worker:*", self._width, 0 if self._show.color else None))
        self._gathering = Gathering()

    def output(self, task: Task, attempt: int, chunk: bytes) -> None:
        """Queue a chunk of a task's output; an empty chunk ends the attempt's output. Never blocks."""
        if not self._show.wants(task):
            return
        with self._awake:
            self._flooded = self._waiting > (BACKLOG // 2 if self._flooded else BACKLOG)
            if not chunk:
                self._cut.discard((task, attempt))
            elif not (chunk := self._fitting((task, attempt), chunk)):
                return
            if not self._flooded:
                self._tell_dropped()
            self._waiting += len(chunk)
            self._queue.append((task, attempt, chunk))
            self._awake.notify()

    def follow(self, status: RunStatus) -> threading.Condition:
        """Show `status` in the status line. Return the lock that has to be held while `status` is changed."""
        self._status = status
        return self._awake

    def tell(self, event: Event, level: Level) -> None:
        """Show the sentence about an event, unless the sentence is less important than `level`."""
        told = sentence(event)
        if told is None or told[0] < level:
            return
        if self._gathering is None or (one := self._gathering.joinable(event)) is None:
            self.say(told[1], is_bad(event))
        elif isinstance(one, Failed) or one.attempt == 1:  # later attempts are announced by the message about a restart
            self._put(one)

    def say(self, text: str, bad: bool = False) -> None:
        """Show a message from the supervisor, after everything already queued."""
        self._put(self._said(text, bad))

    def _said(self, text: str, bad: bool) -> str:
        prefix = self._prefix(SELF, 31 if bad else 1)
        return "".join(f"{prefix}{line}\n" for line in printable_lines(text).split("\n"))

    def block(self, text: str) -> None:
        """Show lines without a prefix, such as the final report, below a line that counts the hidden lines of noise."""
        self._put(_HIDDEN)
        self._put(printable_lines(text, self._show.color).removesuffix("\n") + "\n")

    def close(self) -> None:
        """Wait until the terminal, however slow, has received all queued output; then end the thread."""
        with self._awake:
            self._tell_dropped()
            self._closed = True
            self._awake.notify()
        self._thread.join()  # no timeout, since a user who paused the terminal may resume it at any time
        with suppress(Exception):  # items are still in the queue only if the thread has failed
            self._screen.end(encoded([item for item in self._queue if isinstance(item, str) and item is not _HIDDEN]))

    def _put(self, item: _Item) -> None:
        with self._awake:
            self._tell_dropped()
            self._queue.append(item)
            self._awake.notify()

    def _fitting(self, stream: tuple[Task, int], chunk: bytes) -> bytes:
        """Return the part of a chunk to show. While too much output waits, whole lines are dropped and counted."""
        if stream not in self._cut:
            if not self._flooded:
                return chunk
            self._cut.add(stream)
            line, _, rest = chunk.partition(b"\n")
            self._dropped += rest.count(b"\n")
            return line + b"\n"
        if self._flooded:
            self._dropped += chunk.count(b"\n")
            return b""
        _, newline, rest = chunk.partition(b"\n")
        self._dropped += len(newline)
        if newline:
            self._cut.discard(stream)
        return rest

    def _tell_dropped(self) -> None:
        if self._dropped:
            why = "are not shown, since this terminal is too slow; the logs have them."
            self._queue.append(f"{self._prefix(SELF, 31)}{self._dropped} lines {why}\n")
            self._dropped = 0

    def _prefix(self, name: str, color: int) -> str:
        return _prefix(name, self._width, color if self._show.color else None)

    def _run(self) -> None:
        while True:
            with self._awake:
                if not self._queue and not self._closed:
                    self._awake.wait(self._patience())
                if not self._queue and self._closed:
                    break
                taken, size = self._take()
            self._screen.write([*(text for item in taken for text in self._shown(item)), *self._redrawn()])
            with self._awake:
                self._waiting -= size
        self._screen.end(self._settled())

    def _status_line(self, width: int) -> str:
        from clusterkit.views.statusline import status_line

        with self._awake:
            return "" if self._status is None else status_line(self._status, time.time(), width, self._show.color)

    def _take(self) -> tuple[list[_Item], int]:
        """Remove the oldest items from the queue, about PIECE bytes; return the items and the size of their output."""
        taken: list[_Item] = []
        size = 0
        while self._queue and size < PIECE:
            taken.append(self._queue.popleft())
            size += len(taken[-1][2]) if isinstance(taken[-1], tuple) else 0
        return taken, size

    def _shown(self, item: _Item) -> Sequence[Chunk]:
        if isinstance(item, Spawned | Failed):
            return self._gathered(item)
        if isinstance(item, str):
            return [*self._settled(), *encoded([self._hidden_lines() if item is _HIDDEN else item])]
        return self._after_starts(self._of_task(*item))

    def _after_starts(self, shown: list[Chunk]) -> list[Chunk]:
        """Return the tasks' output, preceded by any held sentence about the tasks' start."""
        if shown and self._gathering is not None and self._gathering.has_starts:
            return [*encoded([self._said(*one) for one in self._gathering.drain()]), *shown]
        return shown

    def _gathered(self, event: Spawned | Failed) -> list[Chunk]:
        assert self._gathering is not None
        before = [] if self._gathering.is_like(event) else self._settled()
        self._gathering.take(event, time.monotonic())
        return before

    def _settled(self) -> list[Chunk]:
        """Return the held lines of tasks, and then the held sentences about tasks."""
        lines = self._twins.drain() if self._twins else []
        told = self._gathering.drain() if self._gathering else []
        return encoded([*lines, *(self._said(*one) for one in told)])

    def _hidden_lines(self) -> str:
        hidden = self._hidden + sum(stream.hidden for stream in self._streams.values())
        self._hidden -= hidden
        are, them, logs = ("is", "it", "log has") if hidden == 1 else ("are", "them", "logs have")
        files = "" if self._gathering else f", and the {logs} {them}"  # on a terminal, keep the line below 80 columns
        where = f"{are} hidden; --all-output shows {them}{files}."
        return f"{self._prefix(SELF, 1)}{number_of('line', hidden)} of TensorFlow's own {where}\n" if hidden else ""

    def _of_task(self, task: Task, attempt: int, chunk: bytes) -> list[Chunk]:
        if chunk:
            stream = self._streams.get((task, attempt))
            if stream is None:
                stream = self._streams[task, attempt] = self._new_stream(task)
            shown = stream.feed(chunk, time.monotonic())
            if stream.due_at is not None:
                self._redrawing[task, attempt] = stream
            return shown
        stream = self._streams.pop((task, attempt), None)
        self._redrawing.pop((task, attempt), None)
        if stream is None:
            return []
        shown = stream.flush(time.monotonic())
        self._hidden += stream.hidden
        return shown

    def _new_stream(self, task: Task) -> Prefixer:
        from clusterkit.views.prefixed import Prefixer
        from clusterkit.views.repeats import Repeats

        twins = self._twins if task.type is TaskType.WORKER else None
        return Prefixer(self._prefixes[task], self._show.noise, self._show.color, Repeats(self._tracebacks), twins)

    def _patience(self) -> float | None:
        """Return the seconds until a held or redrawn line or the status line is due; None if no such line exists."""
        now = time.monotonic()
        due = [stream.due_at - now for stream in self._redrawing.values() if stream.due_at is not None]
        due += [one.due_at - now for one in (self._twins, self._gathering) if one and one.due_at is not None]
        patience = [*due, *(() if self._screen.patience is None else (self._screen.patience,))]
        return max(0.0, min(patience)) if patience else None

    def _redrawn(self) -> Iterator[Chunk]:
        """Yield the output that has to be shown now: held lines, and the current text of lines being redrawn."""
        now = time.monotonic()
        if self._gathering is not None and self._gathering.due_at is not None and now >= self._gathering.due_at:
            yield from self._settled()
        if self._twins is not None:
            yield from self._after_starts(encoded(self._twins.settle(now)))
        for key, stream in list(self._redrawing.items()):
            yield from stream.due(now)
            if stream.due_at is None:
                del self._redrawing[key]


def prefix(task: Task, width: int, color: bool) -> str:
    """Return the prefix of a task's lines: the task's name, `width` columns wide, in the task's color."""
    return _prefix(str(task), width, _color(task) if color else None)


def _prefix(name: str, width: int, color: int | None) -> str:
    text = f"{name.ljust(width)} │ "
    return text if color is None else f"\x1b[0;{color}m{text}\x1b[0m"  # 0 resets colors that a task has left on


def _color(task: Task) -> int:
    order = list(TaskType).index(task.type)
    return _COLORS[(order + task.index * (task.type is TaskType.WORKER) * 3) % len(_COLORS)]
