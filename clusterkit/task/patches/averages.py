"""Logs a line if the program averages losses per pixel or per word as if they were losses per row.

`tf.nn.compute_average_loss` divides the sum of all elements by the number of rows in the global batch, and the program
runs without an error. The table of explanations has a row for the line.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

_logged: list[str] = []


def watch(nn: Any, load: Any) -> None:
    """Patch `tf.nn.compute_average_loss` to check the shape of the losses."""

    def check(per_example_loss: Any = None, *_: object, **__: object) -> None:
        dims = getattr(getattr(per_example_loss, "shape", None), "dims", None) or ()
        sizes = [getattr(dim, "value", dim) for dim in dims][1:]
        if _logged or not sizes or set(sizes) == {1}:
            return
        shape = ", ".join("?" if size is None else str(size) for size in sizes)
        _logged.append(shape)
        name = caller(sys._getframe(2), load("task/patches/refusals").LIBRARIES)
        what = f"passes losses of the shape [rows, {shape}] to tf.nn.compute_average_loss"
        print(f"clusterkit: {name} {what}, which expects one loss per row.", file=sys.stderr, flush=True)

    load("task/patches/hook").before(nn, "compute_average_loss", check)


def caller(frame: FrameType | None, libraries: tuple[str, ...]) -> str:
    """Return the name of the program's function that called a library. AutoGraph prepends `tf__` to its copy's name."""
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in libraries:
        frame = frame.f_back
    name = "" if frame is None else frame.f_code.co_name.removeprefix("tf__")
    return name if name.isidentifier() else "The program"
