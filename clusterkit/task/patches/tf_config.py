"""Keeps clusterkit's TF_CONFIG when the program sets its own (--tf-config ours).

Two methods of `os.environ` are patched, since every write calls one of them.
"""

from __future__ import annotations

import sys
from typing import Any

NAME = "TF_CONFIG"


def keep(os: Any, load: Any) -> None:
    """Patch `os.environ` to ignore writes to and deletions of TF_CONFIG."""
    plain = type(os.environ)

    class Environ(plain):  # type: ignore[misc, valid-type]
        def __setitem__(self, name: str, value: str) -> None:
            if name != NAME:
                super().__setitem__(name, value)
            elif value != self.get(NAME):
                warn_once()
                load("task/patches/told").effect("tf-config", load)

        def __delitem__(self, name: str) -> None:
            if name != NAME:
                super().__delitem__(name)
            elif name in self:
                load("task/patches/told").effect("tf-config", load)

    Environ.__name__, Environ.__qualname__, Environ.__module__ = plain.__name__, plain.__qualname__, plain.__module__
    os.environ.__class__ = Environ


def warn_once(warned: list[bool] = []) -> None:  # noqa: B006 - keeps its state between calls
    """Print, only once, that the program's TF_CONFIG is ignored, and which line of the program sets it."""
    if not warned:
        warned.append(True)
        frame = sys._getframe(2)
        while frame.f_back is not None and frame.f_code.co_filename.startswith("<frozen "):
            frame = frame.f_back  # skip frames of frozen modules, such as that of os.environ.update()
        place = f"{frame.f_code.co_filename.rpartition('/')[2]}, line {frame.f_lineno}"
        print(f"clusterkit: {place}: the program's own TF_CONFIG is ignored (--tf-config ours).", file=sys.stderr)
