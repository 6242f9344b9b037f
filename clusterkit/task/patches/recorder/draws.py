"""Records what draws at random in the steps of a task and in its data, and leaves out random layers where asked.

Several workers draw something else for their parts of a batch than a single process does for the whole batch. So values
that depend on such draws can't be compared.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import FrameType
from typing import Any

# The modules with TensorFlow's operations, and which of their functions draw.
MODULES = tuple(
    f"tensorflow.python.ops.gen_{name}_ops{version}"
    for name, version in (
        ("random", ""),
        ("stateless_random", ""),
        ("stateless_random", "_v2"),
        ("stateful_random", ""),
    )
)
DRAWING = ("random", "normal", "uniform", "multinomial", "shuffle", "binomial")
NOT_DRAWING = ("_get_", "rng_", "_grad", "non_deterministic", "eager_fallback")
STATEFUL = MODULES[0]  # its operations keep a state that no checkpoint contains
# Parts of the names of files that draw the first values of variables, and of the one that traces functions of tf.data.
INITIALIZERS = ("initializers", "init_ops")
DATA = "structured_function.py"
# Where Keras shuffles the rows of arrays. The rows of each step are recorded and compared themselves.
ADAPTERS = ("/data_adapters/", "/engine/data_adapter.py")
AUTOGRAPH = "__autograph_generated"
DEEPEST = 200  # frames
LIBRARIES = ("keras", "tf_keras")
# The packages of Keras whose layers draw in training alone, and are the identity, or nearly so, otherwise.
RANDOM_LAYERS = ("keras.src.layers.regularization.", "keras.src.layers.preprocessing.image_preprocessing.")
MOST = 20


class Draws:
    """What has been recorded. `output` writes the record of the task."""

    def __init__(self, output: Any, load: Any) -> None:
        self.output, self.load = output, load
        self.rows = load("task/patches/recorder/rows")
        self.seen: set[tuple[str, str, bool]] = set()

    def drawn(self, operation: str, is_stateful: bool) -> None:
        """Note that an operation has drawn; outside of a training step and of a function of tf.data, do nothing."""
        pending = getattr(self.rows.current, "drawn", None)
        frame = sys._getframe(2)
        if is_inside(frame, INITIALIZERS):
            return
        if pending is not None:
            pending.append((self.name_of(frame, operation), is_stateful))
        elif is_inside(frame, (DATA,)) and not ("shuffle" in operation and is_inside(frame, ADAPTERS)):
            self.record("data", self.name_of(frame, operation), is_stateful)

    def record(self, where: str, name: str, is_stateful: bool) -> None:
        """Write a line to the record, once for each name."""
        if (where, name, is_stateful) not in self.seen and len(self.seen) < MOST:
            self.seen.add((where, name, is_stateful))
            self.output.write("draw", where=where, name=name, stateful=is_stateful)

    def name_of(self, frame: FrameType, operation: str) -> str:
        """Return the layer that draws, such as `RandomFlip random_flip`, or the line of the program that does.

        If the line is unknown, return the operation.
        """
        inner: FrameType | None = frame
        for _ in range(DEEPEST):
            # Outside of a function of tf.data, the layer is the model that trains on this data.
            if inner is None or DATA in inner.f_code.co_filename:
                break
            if (layer := layer_in(inner)) is not None:
                return f"{type(layer).__name__} {layer.name}"
            inner = inner.f_back
        _, place = self.load("task/patches/refusals").library_call(frame)
        is_converted = AUTOGRAPH in place  # such a file is gone when a reader looks for it
        return f"the operation {operation}" if is_converted else str(place.rstrip(","))


def is_inside(frame: FrameType | None, files: tuple[str, ...]) -> bool:
    """Return whether a frame or one of its callers belongs to one of these files."""
    for _ in range(DEEPEST):
        if frame is None:
            return False
        if any(file in frame.f_code.co_filename for file in files):
            return True
        frame = frame.f_back
    return False


def layer_in(frame: FrameType) -> Any:
    """Return the Keras layer whose method runs in a frame; None if there is no such layer."""
    owner = frame.f_locals.get("self")
    kinds = (kind for kind in type(owner).__mro__ if kind.__name__ == "Layer")
    if any(kind.__module__.partition(".")[0] in LIBRARIES for kind in kinds):
        return owner
    return None


def watch(module: Any, load: Any) -> None:
    """Patch the functions of a module that make operations which draw."""
    output = load("task/patches/recorder/output").output
    draws = draws_of(output, load)
    for name, function in list(vars(module).items()):
        is_own = callable(function) and getattr(function, "__module__", "") == module.__name__
        if is_own and draws_at_random(name):
            setattr(module, name, noted(function, draws, module.__name__ == STATEFUL))


def draws_at_random(name: str) -> bool:
    """Return whether the function of this name makes an operation that draws."""
    has_part = any(part in name for part in DRAWING)
    return has_part and name[:1] != "_" and not any(part in name for part in NOT_DRAWING)


def noted(function: Callable[..., Any], draws: Draws, is_stateful: bool) -> Callable[..., Any]:
    """Return the function, which notes each call."""

    @wraps(function)
    def draw(*args: Any, **kwargs: Any) -> Any:
        with suppress(Exception):  # the program must not notice
            draws.drawn(function.__name__, is_stateful)
        return function(*args, **kwargs)

    return draw


_draws: list[Draws] = []


def draws_of(output: Any, load: Any) -> Draws:
    """Return the draws of this process, which the first call creates."""
    if not _draws:
        _draws.append(Draws(output, load))
    return _draws[0]


def is_left_out() -> bool:
    """Return whether the exam has requested that nothing is dropped."""
    return "no-dropout" in os.environ.get("CLUSTERKIT_RECORD_STEPS", "").split(",")


def leave_out_dropout(module: Any, load: Any) -> None:
    """Disable dropout of Keras 3 if the exam requests this, since workers drop other values than a single process."""
    if is_left_out():
        module.dropout = lambda inputs, *args, **kwargs: inputs


def leave_out_dropout_of_tensorflow(module: Any, load: Any) -> None:
    """Do the same for `tf.nn.dropout` and its relatives, which Keras 2 calls, too."""
    if is_left_out():
        module._dropout = lambda x, *args, **kwargs: x


def leave_out_layers(module: Any, load: Any) -> None:
    """Have the random layers of Keras 3, such as RandomFlip and GaussianNoise, behave as outside of training."""
    if not is_left_out():
        return
    hook = load("task/patches/hook")
    for kind in {one for layer in vars(module).values() if isinstance(layer, type) for one in layer.__mro__}:
        call = vars(kind).get("call")
        if call is not None and kind.__module__.startswith(RANDOM_LAYERS) and takes_training(call):
            hook.replace(kind, "call", outside_of_training(call))


def takes_training(call: Any) -> bool:
    code = getattr(call, "__code__", None)
    return code is not None and "training" in code.co_varnames[: code.co_argcount]


def outside_of_training(call: Any) -> Callable[..., Any]:
    place = call.__code__.co_varnames.index("training")

    def patched(*args: Any, **kwargs: Any) -> Any:
        return call(*args[:place], **{**kwargs, "training": False})

    return patched
