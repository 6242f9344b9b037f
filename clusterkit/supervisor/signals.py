"""Signals to the supervisor: handlers only append to the inbox."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from types import FrameType

from clusterkit.system.process import ENDING
from clusterkit.words.events import Interrupted


def listen(post: Callable[[Interrupted], None], heeded: Sequence[signal.Signals] = ENDING) -> None:
    """Turn signals, those that ask for the end of a run, into events. For the main thread.

    One that is ignored stays ignored, as `nohup` wants it. `SimpleQueue.put` may be called from a handler.
    """

    def handle(number: int, _: FrameType | None) -> None:
        post(Interrupted(number))

    for number in heeded:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heeded)  # the guardian forks with them blocked


def end_with(code: int, heeded: Sequence[signal.Signals] = ENDING) -> None:
    """From now on a signal ends this process with this code: only a slow terminal is still waited for."""
    for number in heeded:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(code))
