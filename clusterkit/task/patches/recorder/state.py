"""Lists the variables of a recorded task, with their roles and this worker's values.

A variable of Keras or of a strategy consists of TensorFlow variables, which are not listed separately. Values are read
from this worker's copy, without communication with other workers.
"""

from __future__ import annotations

import sys
from _weakref import ref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

LARGEST = 1_000_000  # elements; larger variables are sampled
STATISTICS = ("moving_mean", "moving_variance", "moving_stddev", "renorm_mean", "renorm_stddev")
OF_CLUSTERKIT = "clusterkit_"  # begins the names of variables that the repairs of Keras create
NO_VARIABLES = ("_UnreadVariable", "BaseResourceVariable")  # results of assignments, and wrapped handles
NUDGED = ("float16", "float32", "float64")  # the types of weights that `Registry.nudge` changes
ROUNDING = {"float16": 2.0**-10, "bfloat16": 2.0**-7}  # the relative rounding error of types less exact than float32
NUDGE_SEED = 5
Value = tuple[dict[str, object], Any]


class NamedVariable:
    """A variable with a unique name. `role` is the kind of object that uses the variable: "optimizer" or "metric"."""

    __slots__ = ("base", "name", "number", "role", "variable")

    def __init__(self, variable: Any, base: str, number: int) -> None:
        self.variable = ref(variable)
        self.base = base
        self.number = number
        self.name = base if number == 1 else f"{base}#{number}"
        self.role = ""


class Registry:
    """The existing variables, in the order of their creation, and the optimizers and metrics that use them."""

    def __init__(self) -> None:
        self.entries: dict[int, NamedVariable] = {}  # maps the `id` of each variable to its entry
        self.names: dict[str, int] = {}  # maps a name to the number of variables that have had the name
        self.optimizers: list[Callable[[], Any]] = []  # weak references
        self.metrics: list[Callable[[], Any]] = []

    def add(self, variable: Any, name: str) -> None:
        """Add a variable. Remove the variables that it consists of, since they are not listed separately."""
        for part in reversed(parts_of(variable)):
            self.drop(part)
        entry = self.entries.get(id(variable))
        if entry is not None and entry.variable() is variable:  # Keras has initialized the variable again
            return
        self.entries.pop(id(variable), None)  # a deleted variable may have had the same id
        self.names[name] = self.names.get(name, 0) + 1
        self.entries[id(variable)] = NamedVariable(variable, name, self.names[name])

    def drop(self, variable: Any) -> None:
        """Remove a variable and its parts. If its number is the highest of its base name, use the number again."""
        for part in reversed(parts_of(variable)):
            self.drop(part)
        entry = self.entries.get(id(variable))
        if entry is not None and entry.variable() is variable:
            del self.entries[id(variable)]
            if self.names[entry.base] == entry.number:
                self.names[entry.base] -= 1

    def living(self) -> list[tuple[NamedVariable, Any]]:
        every = [(key, entry, entry.variable()) for key, entry in list(self.entries.items())]
        for key, entry, variable in every:
            if variable is None and self.entries.get(key) is entry:
                del self.entries[key]
        return [(entry, variable) for _, entry, variable in every if variable is not None]

    def iterations(self) -> list[int]:
        return [count_of(optimizer) for optimizer in alive(self.optimizers)]

    def snapshot(self, note: Callable[[str], None]) -> list[Value]:
        """Return each variable's description (name, kind, shape) and value; call `note` for each omitted variable."""
        roles = dict(self.roles())
        values = []
        for entry, variable in self.living():
            leaf = leaf_of(variable)
            entry.role = roles.get(id(leaf), entry.role)
            try:
                array = read(leaf)
            except Exception as error:  # the variable has no value yet, or its server is gone
                note(f"{entry.name} can't be read: {type(error).__name__}: {str(error)[:200]}")
                continue
            if array is None:
                note(f"{entry.name} is not recorded: it has no numbers.")
                continue
            about = {"name": entry.name, "kind": kind_of(entry.role, entry.base, variable)}
            values.append(
                ({**about, "on_read": is_on_read(variable), "shape": list(array.shape)}, sampled(array, LARGEST))
            )
        return [*values, *scheduled_rates(alive(self.optimizers))]

    def take(self, values: Mapping[str, Any]) -> bool:
        """Give the variables with these names these values, if all shapes fit; otherwise, change nothing.

        A value of another shape has only some of the elements of a large variable. Variables of which some are taken
        from another run and some are not would be the state of neither.
        """
        found = [(variable, values[entry.name]) for entry, variable in self.living() if entry.name in values]
        if not all(tuple(leaf_of(variable).shape) == array.shape for variable, array in found):
            return False
        for variable, array in found:
            for leaf in leaves_of(variable):
                write(leaf, array.astype(leaf.dtype.as_numpy_dtype))
        return True

    def nudge(self) -> None:
        """Change each element of each weight by about the rounding error of the type in which the program computes."""
        np = sys.modules["numpy"]
        signs = np.random.default_rng(NUDGE_SEED)
        roles = dict(self.roles())
        for entry, variable in self.living():
            leaf = leaf_of(variable)
            role = roles.get(id(leaf), entry.role)
            if kind_of(role, entry.base, variable) != "weight" or leaf.dtype.name not in NUDGED:
                continue
            array = read(leaf)
            size = max(ROUNDING.get(compute_type(), 0.0), np.finfo(array.dtype).eps)
            up_or_down = signs.choice(np.array([-1, 1]), array.shape)
            nudged = (array * (1 + size * up_or_down)).astype(array.dtype)
            for one in leaves_of(variable):
                write(one, nudged)

    def roles(self) -> Iterator[tuple[int, str]]:
        """Yield (id of the leaf, role) for the variables of metrics and optimizers. The last role of a leaf counts."""
        for metric in alive(self.metrics):
            yield from ((id(leaf_of(variable)), "metric") for variable in variables_of(metric))
        optimizers = alive(self.optimizers)
        for optimizer in optimizers:
            yield from ((id(leaf_of(variable)), "optimizer") for variable in variables_of(optimizer))
        for optimizer in optimizers:
            hyper = getattr(optimizer, "_hyper", {})
            rate = getattr(optimizer, "_learning_rate", None)
            yield id(leaf_of(hyper.get("learning_rate") if rate is None else rate)), "learning-rate"
            yield id(leaf_of(getattr(optimizer, "_iterations", None))), "counter"


def weights_of(values: Iterable[Value]) -> dict[str, Any]:
    """Return the values of the weights in a snapshot, by name."""
    return {str(about["name"]): value for about, value in values if about["kind"] == "weight"}


def alive(references: Iterable[Callable[[], Any]]) -> list[Any]:
    """Return the objects of these weak references that still exist."""
    return [one for get in references if (one := get()) is not None]


def variables_of(owner: Any) -> list[Any]:
    """Return the variables of an optimizer or metric of any Keras version."""
    for name in ("_variables", "_weights", "variables"):
        variables = getattr(owner, name, None)
        if isinstance(variables, list | tuple) and variables:
            return list(variables)
    return []


def count_of(optimizer: Any) -> int:
    """Return how many steps an optimizer has taken; 0 if it does not count them."""
    try:  # `iterations` is not read, since Keras 2's legacy optimizers create that variable on the first access
        own = int(read(leaf_of(optimizer._iterations)))
    except Exception:  # a subclass in the program may raise anything
        return 0
    return own or count_of(getattr(optimizer, "inner_optimizer", None))  # a LossScaleOptimizer has an inner optimizer


def scheduled_rates(optimizers: Iterable[Any]) -> Iterator[Value]:
    """Yield the learning rates that follow a schedule, which are no variables, as if they were variables.

    Schedules are functions of the optimizer's count. A schedule that raises an exception has no value.
    """
    numpy = sys.modules["numpy"]
    for number, optimizer in enumerate(optimizers, 1):
        rate: Any = getattr(optimizer, "_learning_rate", None)
        if rate is None:
            rate = getattr(optimizer, "_hyper", {}).get("learning_rate")
        if not any(kind.__name__ == "LearningRateSchedule" for kind in type(rate).__mro__):
            continue
        record = sys.modules["tensorflow.python.eager.record"]
        try:
            with record.stop_recording():
                value = numpy.asarray(rate(numpy.int64(count_of(optimizer))), "float32").reshape(())
        except Exception:  # the program's own schedule may raise anything
            continue
        name = f"learning_rate of {getattr(optimizer, 'name', type(optimizer).__name__)}"
        yield {
            "name": name if number == 1 else f"{name}#{number}",
            "kind": "learning-rate", "on_read": False, "shape": [],
        }, value  # fmt: skip


def parts_of(variable: Any) -> tuple[Any, ...]:
    """Return the variables that a variable of Keras, of a strategy or of a parameter server consists of."""
    attributes = getattr(variable, "__dict__", {})
    if "_path" in attributes and "_value" in attributes:  # a variable of Keras 3
        return () if attributes["_value"] is None else (attributes["_value"],)
    if isinstance(attributes.get("_values"), list | tuple):
        return tuple(attributes["_values"])
    return (attributes["_v"],) if "_v" in attributes else ()


def leaf_of(variable: Any) -> Any:
    """Return the TensorFlow variable that holds the value of this worker's first replica."""
    while parts := parts_of(variable):
        variable = parts[0]
    return variable


def leaves_of(variable: Any) -> list[Any]:
    """Return the TensorFlow variables that hold the values of all replicas of this worker."""
    parts = parts_of(variable)
    return [leaf for part in parts for leaf in leaves_of(part)] if parts else [variable]


def compute_type() -> str:
    """Return the type in which Keras computes, such as "float16"; "" without Keras."""
    for module in filter(None, (sys.modules.get(name) for name in ("keras", "tf_keras"))):
        return str(module.mixed_precision.global_policy().compute_dtype)
    return ""


def write(leaf: Any, array: Any) -> None:
    """Give a leaf a value, without a gradient tape or a strategy noticing."""
    with sys.modules["tensorflow.python.eager.record"].stop_recording():
        operations = sys.modules["tensorflow.python.ops.gen_resource_variable_ops"]
        operations.assign_variable_op(leaf.handle, sys.modules["tensorflow"].constant(array, leaf.dtype))


def read(leaf: Any) -> Any:
    """Return the value of a leaf as an array; None if it does not consist of numbers.

    Calls the read operation directly: a strategy would aggregate the replicas' values, and the program's gradient tape
    would watch the variable.
    """
    record = sys.modules["tensorflow.python.eager.record"]
    with record.stop_recording():
        operations = sys.modules["tensorflow.python.ops.gen_resource_variable_ops"]
        array = operations.read_variable_op(leaf.handle, leaf.dtype).numpy()
    kind = getattr(getattr(array, "dtype", None), "kind", "")
    if kind == "V":
        return array.astype("float32")  # bfloat16 and similar types, which .npz files do not support
    return array if kind and kind in "biufc" else None


def sampled(array: Any, largest: int) -> Any:
    """Return the array, or evenly spaced elements of it if it has more than `largest` elements."""
    return array if array.size <= largest else array.reshape(-1)[:: -(-array.size // largest)]


def is_on_read(variable: Any) -> bool:
    """Return whether a variable has ON_READ synchronization, so its values may differ between replicas."""
    every = (variable, *parts_of(variable))
    names = [getattr(one, "_synchronization", None) or getattr(one, "synchronization", None) for one in every]
    return any(str(getattr(name, "name", name)).lower() == "on_read" for name in names)


def kind_of(role: str, name: str, variable: Any) -> str:
    """Return the kind of a variable, such as "weight" or "optimizer", given its role and its name or path."""
    last = name.rpartition("/")[2]
    if role:
        return role
    if last in ("seed_generator_state", "StateVar"):
        return "random"
    if last in STATISTICS:
        return "batch-norm"
    dtype = str(getattr(variable.dtype, "name", variable.dtype))
    return "weight" if variable.trainable and "float" in dtype else "other"


registry = Registry()


def watch(module: Any, load: Any) -> None:
    """Patch the classes of variables and metrics to register each object that is created."""
    output = load("task/patches/recorder/output").output

    def guarded(call: Callable[[Any], None]) -> Callable[..., None]:
        return lambda self, *args, **kwargs: output.guarded("A variable is not recorded", lambda: call(self))

    calls: Mapping[str, Callable[[Any], None]] = {
        "BaseResourceVariable.__init__": add_plain,
        "DistributedVariable.__init__": add_distributed,
        "CollectiveReplicaLauncher.__init__": lambda launcher: registry.drop(launcher._ordering_token),
        "Variable._initialize": add_keras,
        "Metric.__init__": lambda metric: registry.metrics.append(ref(metric)),
    }
    load("task/patches/hook").watch(module, {path: guarded(call) for path, call in calls.items()}, {})


def add_plain(variable: Any) -> None:
    """Add a variable of TensorFlow, unless it belongs to a graph."""
    own = variable.name.startswith(OF_CLUSTERKIT)
    if type(variable).__name__ not in NO_VARIABLES and not variable._in_graph_mode and not own:
        registry.add(variable, variable.name.partition(":")[0])


def add_distributed(variable: Any) -> None:
    """Add a distributed variable in place of its replicas' variables."""
    registry.add(variable, variable.name.partition(":")[0])


def add_keras(variable: Any) -> None:
    """Add a variable of Keras in place of the TensorFlow variable that it wraps, unless the latter is sharded."""
    if hasattr(leaf_of(variable), "handle"):
        registry.add(variable, variable._path)
