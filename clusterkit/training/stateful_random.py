"""Prints a notice if a model draws from stateful operations such as `tf.random.normal`, whose state can't be saved."""

from __future__ import annotations

import sys
from typing import Any, Final

NOTICE: Final = (
    "Backup can't save the state of tf.random operations such as the one in {}, so a resumed fit draws other numbers "
    "there. Use keras.random with a keras.random.SeedGenerator, or tf.random.stateless_normal."
)
_noticed: set[str] = set()


class StatefulRandom:
    """Looks for such operations while Keras 3 traces or runs the first step."""

    def __init__(self) -> None:
        self._plain: Any = None
        self._module: Any = None

    def begin(self) -> None:
        """Look at every operation of `tf.random` from now on, until `end`."""
        self._module = sys.modules.get("tensorflow.python.framework.random_seed")
        if self._module is None or "keras.src.models.model" not in sys.modules:
            return
        self._plain = plain = self._module.get_seed

        def get_seed(seed: Any) -> Any:
            frame: Any = sys._getframe(1)
            if frame.f_globals.get("__name__") == "tensorflow.python.ops.random_ops":
                _notice(_caller(frame))
            return plain(seed)

        self._module.get_seed = get_seed

    def end(self) -> None:
        """Stop looking. Does nothing if this object does not look."""
        if self._plain is not None:
            self._module.get_seed, self._plain = self._plain, None


def _notice(place: str) -> None:
    if place and place not in _noticed:
        _noticed.add(place)
        print(NOTICE.format(place), flush=True)


def _caller(frame: Any) -> str:
    """Return the function of the program that drew, such as ``Noise.call``; an empty text if it was a library's."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in ("tensorflow", "keras"):
            function = frame.f_code.co_name.removeprefix("tf__")
            owner = frame.f_locals.get("self")
            return function if owner is None else f"{type(owner).__name__}.{function}"
        frame = frame.f_back
    return ""
