"""Patches pdb so that `breakpoint()`, `pdb.set_trace()` and `pdb.post_mortem()` hold the task for `clusterkit debug`.

A held task is stopped for the debugger. If PYTHONBREAKPOINT or the program selects a debugger other than pdb, that
debugger is not patched.
"""

from __future__ import annotations

import sys
from typing import Any


def hold(module: Any, load: Any) -> None:
    """Patch pdb's functions to hold the task. The debugger is loaded when it is first needed."""
    plain, replace = module.post_mortem, load("task/patches/hook").replace

    def set_trace(*args: Any, header: object = None, **kwargs: Any) -> None:
        load("task/debugger").stop(load, sys._getframe().f_back, header)

    def post_mortem(t: Any = None) -> None:
        raised = t if isinstance(t, BaseException) else sys.exc_info()[1]
        traceback = t if t is not None and raised is not t else getattr(raised, "__traceback__", None)
        if traceback is None:
            plain(t)  # raises the usual exception for a missing traceback
        load("task/debugger").examine(load, raised, traceback)

    replace(module, "set_trace", set_trace)
    replace(module, "post_mortem", post_mortem)


def hold_raised(module: object, load: Any) -> None:
    """Patch entry.py to hold the task after the exception that ends the program has been printed (--pdb)."""
    entry = load.__globals__
    show = entry["show"]

    def show_and_hold(error: BaseException, traceback: Any) -> None:
        show(error, traceback)
        load("task/debugger").hold_after(load, error, traceback)

    entry["show"] = show_and_hold
