"""Programs that assign to a variable of Keras what they read of it before: some of these are additions, some are not.

Each takes the variable and returns nothing, or what else it computes. `True` beside it: the assignment is an addition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.support import Lazily

tf: Any = Lazily("tensorflow")
keras: Any = Lazily("keras")


class Program(NamedTuple):
    """A step, whether it is rewritten, and its variable's first value."""

    step: Callable[[Any], Any]
    adds: bool
    value: Any = 10.0
    dtype: str = "float32"


def write_between(v: Any) -> None:
    """The issue's program."""
    old = tf.identity(v.value)
    v.assign(0.5 * old)
    v.assign(old - 1.0)


def add_between(v: Any) -> None:
    """TensorFlow's own addition is a write, too."""
    old = tf.identity(v.value)
    v.value.assign_add(3.0)
    v.assign(old + 1.0)


def write_through_an_alias(v: Any) -> None:
    """An inner function takes the variable as an argument, whose handle is another tensor."""
    old = tf.identity(v.value)
    tf.function(lambda alias: alias.assign(2.0))(v.value)
    v.assign(old + 1.0)


def write_in_an_inner_function(v: Any) -> None:
    old = tf.identity(v.value)
    tf.function(lambda: v.value.assign(2.0))()
    v.assign(old + 1.0)


def write_in_a_branch(v: Any) -> None:
    old = tf.identity(v.value)
    tf.cond(old > 8.0, lambda: v.value.assign(2.0) + 0.0, lambda: 0.0)
    v.assign(old + 1.0)


def write_in_a_loop(v: Any) -> None:
    old = tf.identity(v.value)
    tf.while_loop(lambda i: i < 3, lambda i: (i + int(v.value.assign(2.0) is None) + 1,), (tf.constant(0),))
    v.assign(old + 1.0)


def write_in_python(v: Any) -> None:
    old = tf.identity(v.value)
    with tf.control_dependencies([old]):
        written = tf.py_function(lambda: v.value.assign(2.0) + 0.0, [], "float32")
    with tf.control_dependencies([written]):
        v.assign(old + 1.0)


def write_by_a_reduction(v: Any) -> None:
    """The operation is not marked as one that writes."""
    old = tf.identity(v.value)
    tf.data.Dataset.range(2).reduce(0.0, lambda total, i: total + v.value.assign(tf.cast(i, tf.float32)))
    v.assign(old + 1.0)


def write_in_a_map(v: Any) -> None:
    old = tf.identity(v.value)
    tf.map_fn(lambda i: v.value.assign(i) + 0.0, tf.constant([1.0, 2.0]))
    v.assign(old + 1.0)


def write_by_a_raw_operation(v: Any) -> None:
    """Not by a method of the variable."""
    old = tf.identity(v.value)
    tf.raw_ops.AssignSubVariableOp(resource=v.value.handle, value=3.0)
    v.assign(old + 1.0)


def write_by_a_second_object(v: Any) -> None:
    """Keras makes another variable of the same one of TensorFlow."""
    old = tf.identity(v.value)
    keras.Variable(v.value, dtype="float32").assign(4.0)
    v.assign(old + 1.0)


def write_by_a_dataset(v: Any) -> None:
    old = tf.identity(v.value)
    for _ in tf.data.Dataset.range(2).map(lambda i: v.value.assign(tf.cast(i, tf.float32))):
        pass
    v.assign(old + 1.0)


def assign_twice(v: Any) -> None:
    """The second assignment sets what the first has set."""
    total = v + 1.0
    v.assign(total)
    v.assign(total)


def read_outside_a_branch(v: Any) -> None:
    old = tf.identity(v.value)

    def branch() -> Any:
        v.value.assign(0.0)
        v.assign(old + 1.0)
        return 0.0

    tf.cond(old > 11.5, branch, lambda: v.assign(old + 0.5) * 0.0)


def sum_outside_a_branch(v: Any) -> None:
    total = v + 1.0
    tf.cond(total > 0.0, lambda: v.assign(total) * 0.0, lambda: 0.0)


def read_outside_a_loop(v: Any) -> None:
    old = tf.identity(v.value)

    def body(i: Any) -> Any:
        v.assign(old + 1.0)
        return (i + 1,)

    tf.while_loop(lambda i: i < 3, body, (tf.constant(0),))


def read_carried_by_a_loop(v: Any) -> None:
    def body(i: Any, before: Any) -> Any:
        now = tf.identity(v.value)
        v.assign(before + 1.0)
        return i + 1, now

    tf.while_loop(lambda i, _: i < 3, body, (tf.constant(0), tf.identity(v.value)))


def read_in_an_inner_function(v: Any) -> None:
    old = tf.function(lambda: tf.identity(v.value))()
    v.value.assign(0.0)
    v.assign(old + 1.0)


def difference_from(v: Any) -> None:
    v.assign(3.0 - v)


def twice_itself(v: Any) -> None:
    v.assign(v + v)


def half_and_more(v: Any) -> None:
    v.assign(0.5 * v + 1.0)


def cast_between(v: Any) -> None:
    """A sum in half precision is another number."""
    v.assign(tf.cast(tf.cast(v.value, "float16") + 0.1, "float32"))


def sum_cast(v: Any) -> None:
    v.assign(tf.cast(tf.cast(v.value, "float64") + 0.1, "float32"))


def wider(v: Any) -> None:
    """A scalar is added to each element."""
    v.assign(v + 0.25)


def column(v: Any) -> None:
    """Keras adds it as a bias, which is another operation."""
    v.assign(v + tf.constant([[1.0], [2.0]]))


def unknown_rows(v: Any) -> None:
    """The shape of the change is unknown until it is computed."""
    rows = tf.boolean_mask(tf.constant([1.0, 2.0, 3.0]), tf.range(3) < tf.cast(v.value[0], "int32"))
    v.assign(v + tf.reduce_sum(rows) * tf.ones([tf.size(rows) * 0 + 2]))


def add_in_a_branch(v: Any) -> None:
    """Read and written in the same branch."""
    tf.cond(v.value > 0.0, lambda: v.assign(v + 1.0) * 0.0, lambda: 0.0)


def add_in_a_loop(v: Any) -> None:
    def body(i: Any) -> Any:
        v.assign_add(1.0)
        return (i + 1,)

    tf.while_loop(lambda i: i < 3, body, (tf.constant(0),))


def add_in_an_inner_function(v: Any) -> None:
    tf.function(lambda: v.assign(v + 1.0))()


def result_is_used(v: Any) -> Any:
    """What `assign` returns, what was read, and what is read afterwards."""
    old = tf.identity(v.value)
    new = v.assign(old + 1.0)
    return old, new, tf.identity(v.value)


def noise(v: Any) -> None:
    """A random number between the two writes to nothing."""
    v.assign(v.value + 0.0 * tf.random.uniform(()))


def add_then_write(v: Any) -> None:
    v.assign(v + 1.0)
    v.assign(v.value * 0.5)


def write_then_add(v: Any) -> None:
    v.assign(v.value * 0.5)
    v.assign(v + 1.0)


def subtract(v: Any) -> None:
    v.assign_sub(1.5)


def add(v: Any) -> None:
    v.assign_add(1)


def third(v: Any) -> None:
    """Rounded in each type."""
    v.assign_add(tf.cast(1 / 3, v.dtype))
    v.assign_sub(tf.cast(1 / 7, v.dtype))


def swapped(v: Any) -> None:
    v.assign(1.0 + v.value)


PROGRAMS = {
    **{
        step.__name__: Program(step, False)
        for step in (
            *(write_between, add_between, write_through_an_alias, write_in_an_inner_function, write_in_a_branch),
            *(write_in_a_loop, write_in_python, write_by_a_dataset, read_outside_a_branch, sum_outside_a_branch),
            *(read_outside_a_loop, read_carried_by_a_loop, read_in_an_inner_function, difference_from, half_and_more),
            *(cast_between, sum_cast, write_by_a_reduction, write_in_a_map, write_by_a_raw_operation),
            write_by_a_second_object,
        )
    },
    **{
        step.__name__: Program(step, True)
        for step in (
            *(assign_twice, twice_itself, add_in_a_branch, add_in_a_loop, add_in_an_inner_function, result_is_used),
            *(noise, add_then_write, write_then_add, subtract, add, swapped),
        )
    },
    "wider": Program(wider, True, [1.0, 2.0]),
    "wider matrix": Program(wider, True, [[1.0, 2.0], [3.0, 4.0]]),
    "column": Program(column, False, [[1.0, 2.0], [3.0, 4.0]]),
    "unknown rows": Program(unknown_rows, True, [1.0, 2.0]),
    **{f"add {name}": Program(add, True, 10, name) for name in ("int16", "int32", "int64", "int8", "uint8")},
    **{f"third {name}": Program(third, True, 100.0, name) for name in ("bfloat16", "float16", "float32", "float64")},
    **{f"add {name}": Program(add, False, 10, name) for name in ("uint16", "uint32")},
}
