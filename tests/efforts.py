"""Effort: what something costs, counted so that a busy computer changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def calls(action: Callable[[], object], where: str = "") -> int:
    """How many Python functions and generators this thread calls in an action.

    With `where`, only those of files with that in their path; and what dataclasses have made, which is in no file.
    """
    count = 0

    def called(frame: FrameType, what: str, _arg: object) -> None:
        nonlocal count
        path = frame.f_code.co_filename
        count += what == "call" and (where in path or path == "<string>")

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count
