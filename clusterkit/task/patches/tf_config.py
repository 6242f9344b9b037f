"""TF_CONFIG stays what clusterkit has set, although the program sets one of its own: --tf-config ours.

Loaded by path: standard library only. Every way to write to `os.environ` ends in the two methods below.
"""

from __future__ import annotations

import sys
from typing import Any

NAME = "TF_CONFIG"


def keep(os: Any, load: object) -> None:
    """Have `os.environ` ignore what is written to TF_CONFIG."""
    plain = type(os.environ)

    class Environ(plain):  # type: ignore[misc, valid-type]
        def __setitem__(self, name: str, value: str) -> None:
            if name != NAME:
                super().__setitem__(name, value)
            elif value != self.get(NAME):
                say_once()

        def __delitem__(self, name: str) -> None:
            if name != NAME:
                super().__delitem__(name)

    Environ.__name__, Environ.__qualname__, Environ.__module__ = plain.__name__, plain.__qualname__, plain.__module__
    os.environ.__class__ = Environ


def say_once(said: list[bool] = []) -> None:  # noqa: B006 - it remembers
    """Say which line's TF_CONFIG is ignored."""
    if not said:
        said.append(True)
        frame = sys._getframe(2)
        while frame.f_back is not None and frame.f_code.co_filename.startswith("<frozen "):
            frame = frame.f_back  # os.environ.update() is a method of a class of Python's own
        place = f"{frame.f_code.co_filename.rpartition('/')[2]}, line {frame.f_lineno}"
        print(f"clusterkit: {place}: the program's own TF_CONFIG is ignored (--tf-config ours).", file=sys.stderr)
