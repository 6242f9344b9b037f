"""Keeps a SIGTERM handler that the program sets before it creates MultiWorkerMirroredStrategy.

The strategy starts TensorFlow's preemption notifier, which takes SIGTERM at the level of C. The program's handler then
never runs, although `signal.getsignal` still returns it. A notice says so. If the program itself, and not a library,
has set the handler, both are called from then on: TensorFlow's notifier learns of each SIGTERM as before.

This takes nothing from PreemptionCheckpointHandler, which sets a Python handler of its own, and so replaces both.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

Handler = Callable[[int, Any], Any]
SIZE = 512  # bytes; more than a `struct sigaction`, which begins with the handler's address
LIBRARIES = (os.path.join(os.path.dirname(os.__file__), ""), "/site-packages/", "/dist-packages/", "<frozen ")


class ReplacedHandlers:
    """The handler of SIGTERM that the program has set last, and who has set it."""

    def __init__(self) -> None:
        self.load: Any = None  # loads a file of task/; None if the program's handlers are not kept
        self.handler: Handler | None = None
        self.place, self.is_own = "", False

    def keep(self, handler: object, frame: Any) -> None:
        """Keep what was passed to `signal.signal`, and the line that called it."""
        self.handler = handler if callable(handler) else None
        file = frame.f_code.co_filename
        self.is_own = not any(part in file for part in LIBRARIES)
        self.place = f"{os.path.basename(file)}, line {frame.f_lineno}," if self.is_own else frame.f_globals["__name__"]

    def restore(self, strategy: Any, before: int) -> None:
        """Call both handlers if the strategy has replaced the program's one since the address `before` was read."""
        if self.handler is None or (address := handler_address()) == before:
            return
        kept = self.load is not None and self.is_own and self._call_both(ctypes.CFUNCTYPE(None, ctypes.c_int)(address))
        if kept:
            self.load("task/patches/told").effect("sigterm-kept", self.load)
        if strategy.extended.should_checkpoint:  # True only in one worker
            why = "sets a SIGTERM handler before MultiWorkerMirroredStrategy is created, which replaces it"
            what = "clusterkit calls it, which plain TensorFlow does not" if kept else "so it does not run"
            said = f"{self.place} {why}{'. ' if kept else ', '}{what}. Set it after the strategy is created."
            print(f"clusterkit: {said}", file=sys.stderr, flush=True)

    def _call_both(self, notifier: Callable[[int], None]) -> bool:
        handler = self.handler
        assert handler is not None

        @wraps(handler)
        def both(number: int, frame: Any) -> Any:
            notifier(number)  # only sets a flag, since it is made to run in a signal's context
            return handler(number, frame)

        try:
            getattr(signal.signal, "__wrapped__", signal.signal)(signal.SIGTERM, both)
        except ValueError:  # not in the main thread
            return False
        self.handler = None  # a second strategy replaces nothing
        return True


replaced = ReplacedHandlers()


def chain(module: object, load: Any) -> None:
    """Let the program's handler run, too."""
    replaced.load = load


def handler_address() -> int:
    """Return the address of the C function that handles SIGTERM in this process."""
    action = ctypes.create_string_buffer(SIZE)
    ctypes.CDLL(None).sigaction(int(signal.SIGTERM), None, action)
    return ctypes.c_void_p.from_buffer(action).value or 0
