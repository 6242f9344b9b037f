"""The supervisor's side of hooks: queues events for the process that runs the commands."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from clusterkit.companions import Companion, Script
from clusterkit.hooks.executor import TERM_GRACE
from clusterkit.hooks.moments import Document, Moments
from clusterkit.ledger.ledger import Ledger
from clusterkit.store.directory import RunDirectory
from clusterkit.system.inbox import Inbox
from clusterkit.text.spelling import listed
from clusterkit.words.events import Event, Impaired, LifelineLost
from clusterkit.words.job import Hook
from clusterkit.words.model import number_of

BOUND = 30.0  # seconds; the default time limit of a command
MOST_QUEUED = 100  # the maximum number of events that wait for their command; further events are skipped
MOST_REPORTED = 5  # the maximum number of problems of one hook that are reported; further problems are only counted
KILLED_WITHIN = 3.0  # seconds; the longest wait for the executor's report on a command after SIGKILL
SILENT_WAIT = 1.0  # seconds; `end` waits this long before it shows what it is waiting for
END_WITHIN = 3.0  # seconds; the time limit for the executor process to exit
Say = Callable[[str], None]
_Queued = tuple[Document, float]  # an event and its wall time


class HookRunner:
    """Runs the job's commands one at a time, in the order of the events. Call it in the loop's thread.

    A problem with a command only causes a warning. Create the runner in a thread that lives as long as this process.
    """

    def __init__(
        self, ledger: Ledger, run: RunDirectory, inbox: Inbox, say: Say, env: Mapping[str, str], bound: float = BOUND
    ) -> None:
        self._commands = ledger.job.hooks.commands
        self._moments = Moments(ledger, run)
        self._log, self._inbox, self._say, self._bound = run.hooks_log, inbox, say, bound
        self._queue = deque[_Queued]()
        self._running: Hook | None = None
        self._count = 0
        self._last: _Queued | None = None  # the event for the end of the run, once it has occurred
        self._ending = self._is_hurried = False
        self._skipped, self._skipped_in_all = Counter[Hook](), Counter[Hook]()
        self._problems = Counter[Hook]()
        self._companion: Companion | None = None
        words = [str(Path.cwd()), str(bound), *(f"{hook}={command}" for hook, command in self._commands.items())]
        script = Script("hooks", "clusterkit.hooks.executor", run, words, env, tied=False)
        try:
            # The companion's thread calls `heard` and `ended`.
            heard, ended = (
                lambda message: inbox.put(partial(self._command_done, message)),
                lambda: inbox.put(self._companion_lost),
            )
            self._companion = Companion(script, heard, ended, inbox.put)
        except OSError as error:
            self._tell(f"The commands of {self._flags} won't run: their process can't be started ({error.strerror}).")

    def replay(self, events: Iterable[tuple[float, Event]]) -> None:
        """Process the events that were recorded before this process started, but run no commands for them."""
        for at, event in events:
            self._moments.add(at, event)

    def observe(self, event: Event, now: float) -> None:
        self._is_hurried |= isinstance(event, LifelineLost)
        for document in self._moments.add(now, event):
            if document.event not in self._commands or self._companion is None:
                continue
            if document.event is Hook.END:
                self._last = document, time.time()
            else:
                self._add((document, time.time()))

    def end(self) -> None:
        """Run the queued commands within the time limit, then the command for the run's end within its own limit.

        Ctrl-C ends the wait. After LifelineLost, which ends the run at once, no command runs.
        """
        self._ending = True
        if not self._is_hurried:
            self._finish()
        self._report_skipped()
        companion, self._companion = self._companion, None
        if companion is not None:
            companion.stop(END_WITHIN)

    def _finish(self) -> None:
        if not self._wait(self._bound):
            self._drop()
            self._send({"cancel": True})
            self._inbox.work_until(self._is_idle, KILLED_WITHIN + TERM_GRACE)
        if self._last is not None and self._companion is not None and not self._inbox.is_ending:
            self._add(self._last)
            self._wait(self._bound + TERM_GRACE + KILLED_WITHIN)

    @property
    def _flags(self) -> str:
        return listed(hook.flag for hook in self._commands)

    def _is_idle(self) -> bool:
        return self._running is None and not self._queue

    def _wait(self, seconds: float) -> bool:
        if self._inbox.work_until(self._is_idle, min(SILENT_WAIT, seconds)) or self._inbox.is_ending:
            return self._is_idle()
        if self._running is not None:
            self._say(f"Waiting up to {self._bound:g} s for the {self._running.flag} command; Ctrl-C ends it.")
        return self._inbox.work_until(self._is_idle, seconds - SILENT_WAIT)

    def _add(self, one: _Queued) -> None:
        if len(self._queue) < MOST_QUEUED:
            self._queue.append(one)
            self._next()
            return
        if not self._skipped_in_all:
            self._tell(
                f"The commands of {self._flags} can't keep up: {MOST_QUEUED} events wait, and further ones are "
                "skipped. The next command learns how many."
            )
        self._skip(one[0].event)

    def _skip(self, hook: Hook) -> None:
        self._skipped[hook] += 1
        self._skipped_in_all[hook] += 1

    def _drop(self) -> None:
        while self._queue:
            self._skip(self._queue.popleft()[0].event)

    def _next(self) -> None:
        if self._running is not None or not self._queue:
            return
        document, at = self._queue.popleft()
        self._count += 1
        self._running = document.event
        given = json.dumps(document.encode(at, self._skipped.pop(self._running, 0))) + "\n"
        self._send({"number": self._count, "hook": str(self._running), "input": given})

    def _send(self, message: dict[str, Any]) -> None:
        if self._companion is not None:
            with suppress(OSError):  # the companion has ended; `_companion_lost` will be called
                self._companion.send(message)

    def _command_done(self, message: Any) -> None:
        match message:
            case {"number": int(number), "problem": str() | None as problem} if number == self._count:
                hook, self._running = self._running, None
                if hook is not None and problem is not None:
                    self._problems[hook] += 1
                    if self._problems[hook] <= MOST_REPORTED:
                        what = f"The {hook.flag} command {problem}, which changes nothing in the run."
                        self._tell(f"{what} Its log: {self._log}")
                self._next()

    def _companion_lost(self) -> None:
        """Handle the end of the companion, which also ended the running command: skip all queued events."""
        self._running = None
        self._drop()
        companion, self._companion = self._companion, None
        if companion is not None:
            companion.stop(0.0)
            self._tell(f"The commands of {self._flags} no longer run: their process has ended. Its log: {self._log}")

    def _report_skipped(self) -> None:
        for hook, count in self._skipped_in_all.items():
            self._say(f"{hook.flag} was skipped for {number_of('event', count)}: its command could not keep up.")
        for hook, count in self._problems.items():
            if count > MOST_REPORTED:
                self._say(f"The {hook.flag} command failed {count} times in all. Its log: {self._log}")

    def _tell(self, text: str) -> None:
        if self._ending:
            self._say(text)
        else:
            self._inbox.put(Impaired(text))
