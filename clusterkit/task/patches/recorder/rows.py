"""Records the rows that a task trains on: a digest of each row of the first tensor among the arguments of a step.

A function that `Strategy.run` runs is a training step if it computes gradients. Keras's `fit` calls `Strategy.run` too,
even on one worker. Rows that a replica without rows takes from another replica are not recorded. With XLA, no rows are
recorded, since compiled code can't call Python. With parameter servers, no rows are recorded, since other tasks run the
steps.
"""

from __future__ import annotations

import sys
from _thread import _local
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import Any

# Thread-local: `current.computes` is True once the thread's step has computed gradients, and `current.drawn` lists what
# has drawn at random in the step: see draws.py.
current = _local()
decorated: dict[int, Any] = {}  # maps the `id` of each `tf.function` passed to `Strategy.run` to the function
pending: list[list[str]] = []  # for each call of a replica since the last counted step, the digests of its rows


def take(before: int, now: int) -> list[tuple[int, list[str]]]:
    """Remove all digests from `pending`, and return them by step, for the steps `before` + 1 to `now`."""
    taken, pending[:] = list(pending), []
    return distributed(taken, before, now)


def put_back(taken: Sequence[list[str]]) -> None:
    """Return digests to `pending`, before those that are there, so that they count to the next step."""
    pending[:0] = taken


def distributed(taken: Sequence[list[str]], before: int, now: int) -> list[tuple[int, list[str]]]:
    """Distribute the replicas' digests evenly over the steps. If that is impossible, assign all to the last step."""
    steps = max(now - before, 1)
    per_step, rest = divmod(len(taken), steps)
    if rest:
        per_step, before, steps = len(taken), now - 1, 1
    groups = [taken[place * per_step : (place + 1) * per_step] for place in range(steps)]
    return [(now - steps + 1 + place, [row for one in group for row in one]) for place, group in enumerate(groups)]


def digest_of(row: Any) -> str:
    content = repr(row.tolist() if hasattr(row, "tolist") else row).encode() if is_object(row) else row.tobytes()
    return blake2b(content, digest_size=8).hexdigest()


def is_object(row: Any) -> bool:
    """Return whether a row consists of Python objects, such as strings, whose array contains only pointers."""
    return getattr(getattr(row, "dtype", None), "kind", "O") == "O"


def watch(module: Any, load: Any) -> None:
    """Patch `Strategy.run` to record rows, or the gradient tape to recognize training steps."""
    hook = load("task/patches/hook")
    if hasattr(module, "GradientTape"):
        for name in ("gradient", "jacobian"):
            hook.before(module.GradientTape, name, lambda *args, **kwargs: setattr(current, "computes", True))
        return
    output = load("task/patches/recorder/output").output
    recorder = load("task/patches/recorder/recorder").recorder_of(load)
    draws = load("task/patches/recorder/draws").draws_of(output, load)
    plain = module.StrategyBase.run

    def run(self: Any, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
        counted = output.guarded("Rows are not recorded", lambda: with_rows(module, self, fn, output, draws)) or fn
        return recorder.outermost(partial(plain, self, counted, args, kwargs, options))

    hook.replace(module.StrategyBase, "run", run)


def with_rows(module: Any, strategy: Any, function: Any, output: Any, draws: Any) -> Any:
    """Return the function for `Strategy.run` to call: it calls `function`, and records the rows of a training step."""
    if not output.is_open or "ParameterServer" in type(strategy).__name__:
        return function
    if not hasattr(function, "_decorate"):
        status = module.autograph_ctx.control_status_ctx()
        step = counted(module.autograph.tf_convert(function, status, convert_by_default=False), output, draws)
        step.autograph_info__ = None  # AutoGraph has already converted the function
        return step
    if id(function) not in decorated:  # for a `tf.function`, patch the Python function that it wraps
        decorated[id(function)] = function
        decorators = sys.modules["tensorflow.python.util.tf_decorator"]
        function._decorate(lambda plain: decorators.make_decorator(plain, counted(plain, output, draws)))
    return function


def counted(function: Any, output: Any, draws: Any) -> Any:
    """Return a function that calls `function` and, if it computes gradients, records the rows in its arguments."""

    def step(*args: Any, **kwargs: Any) -> Any:
        outer = getattr(current, "computes", False), getattr(current, "drawn", None)
        current.computes, current.drawn = False, []
        try:
            outputs = step.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]
            if current.computes:
                output.guarded("Rows are not recorded", lambda: record((args, kwargs), output))
                for name, is_stateful in current.drawn:
                    draws.record("step", name, is_stateful)
        finally:
            current.computes, current.drawn = outer
        return outputs

    step.__wrapped__ = function  # type: ignore[attr-defined]  # AutoGraph may replace this by a converted function
    return step


def record(arguments: Any, output: Any) -> None:
    """Add an operation to the step. Each time the step runs, the operation records the rows of the first tensor."""
    tf = sys.modules["tensorflow"]
    xla = sys.modules["tensorflow.python.ops.control_flow_util"]
    ops = sys.modules["tensorflow.python.framework.ops"]
    tensors = [leaf for leaf in tf.nest.flatten(arguments) if is_dense(tf, leaf)]
    if not tensors:
        output.note("Rows are not recorded: a training step gets no dense tensor.")
    elif xla.GraphOrParentsInXlaContext(ops.get_default_graph()):
        output.note("Rows are not recorded: a training step is compiled by XLA, which can't call Python.")
    else:
        tf.numpy_function(partial(remember, output), [tensors[0]], tf.int64)


def is_dense(tf: Any, leaf: Any) -> bool:
    """Return whether a leaf is a dense tensor or array that has rows, and not a variable."""
    if not isinstance(leaf, tf.Tensor | sys.modules["numpy"].ndarray) or hasattr(leaf, "assign"):
        return False
    return bool(leaf.shape.rank if hasattr(leaf.shape, "rank") else leaf.shape)


def remember(output: Any, rows: Any) -> Any:
    """Store the digests of rows until the step is counted. TensorFlow calls this function in its own threads."""
    with suppress(Exception):
        if output.has_room_for_rows(len(rows)):
            pending.append([digest_of(row) for row in rows])
    return sys.modules["numpy"].int64(len(rows))
