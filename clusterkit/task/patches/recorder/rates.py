"""Finds the learning rates that a program has as numbers of its own, given the frames that call its first step.

A loop without an optimizer, as in `weight.assign_sub(rate * gradient)`, has its learning rate in a variable of Python,
or in a `tf.Variable` whose name TensorFlow does not know. So they are found by what they are called in the program.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

NAMES = re.compile(r"(?:.*_)?(?:lr|eta|rate|learning_rate|step_size)", re.IGNORECASE)
# A rate of something else, with a name that ends alike.
OTHERS = re.compile(r"drop|decay|sampl|frame|bit_|error|growth", re.IGNORECASE)
DEEPEST = 200  # frames
MOST = 20  # rates


def rates_in(frame: FrameType | None, is_library: Callable[[str], bool]) -> dict[str, float]:
    """Map the names of learning rates to their values, in the program's frames from `frame` on.

    `is_library` says whether a module of this name is not the program's.
    """
    found: dict[str, float] = {}
    for _ in range(DEEPEST):
        if frame is None or len(found) >= MOST:
            break
        if not is_library(str(frame.f_globals.get("__name__", ""))):
            for scope in (frame.f_locals, frame.f_globals):
                for name, value in rates_of(scope):
                    found.setdefault(name, value)
        frame = frame.f_back
    return found


def rates_of(scope: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the learning rates among variables, and among the arguments that argparse has parsed."""
    for name, value in list(scope.items()):
        if type(value).__name__ == "Namespace":
            yield from ((f"{name}.{key}", number) for key, number in rates_of(vars(value)))
        elif NAMES.fullmatch(name) and not OTHERS.search(name):
            number = number_of(value)
            if number is not None:
                yield name, number


def number_of(value: Any) -> float | None:
    """Return a number of Python, or that of a variable or tensor with one number; None for anything else."""
    if isinstance(value, bool):
        return None
    if not isinstance(value, int | float):
        shape = getattr(value, "shape", None)
        if shape is None or tuple(shape) != ():
            return None
        value = value.numpy() if hasattr(value, "numpy") else value
    number = float(value)
    return number if math.isfinite(number) else None
