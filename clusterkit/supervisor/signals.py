"""Signals to the supervisor. Handlers only append to the inbox."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from types import FrameType

from clusterkit.system.process import ENDING
from clusterkit.words.events import Interrupted

WARNINGS = (signal.SIGURG, signal.SIGUSR1)  # the first ends no process that has not begun to listen
HEEDED = (*ENDING, *WARNINGS)
GRACE = 60.0  # seconds that tasks have where only the signal says that the allocation ends


def listen(post: Callable[[Interrupted], None], heeded: Sequence[signal.Signals] = ENDING) -> None:
    """Turn the signals that end a run into events. For the main thread.

    An ignored signal stays ignored, as `nohup` wants it. `SimpleQueue.put` may be called from a handler.
    """

    def handle(number: int, _: FrameType | None) -> None:
        post(Interrupted(number))

    for number in heeded:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heeded)  # the guardian forks with them blocked


def end_with(code: int, heeded: Sequence[signal.Signals] = ENDING) -> None:
    """From now on a signal ends this process with this code: only a slow terminal can still delay its end."""
    for number in heeded:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(code))
