"""Reports how the program trains: which strategies it makes, whether it joins a cluster, and whether it uses that.

Loaded by path: standard library only, and no module that entry.py has not imported. A report is sent when one of these
facts changes, which is a few times in a process.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from typing import Any

MOST = 8  # strategies in a report
LONGEST_PROGRAM = 1 << 20  # characters
DEFAULT = "_DefaultDistributionStrategy"  # what TensorFlow uses outside any scope
# Classes whose public name differs: how the class's name begins, and the public name.
NAMES = (
    ("CollectiveAllReduceStrategy", "MultiWorkerMirroredStrategy"),
    ("ParameterServerStrategy", "ParameterServerStrategy"),
)
# Other libraries for distributed training. A program that imports one may need no cluster of TensorFlow's.
OTHERS = ("horovod", "byteps", "mpi4py", "smdistributed", "bagua", "ray", "flwr", "tensorflow_federated")


class Distribution:
    """What is known of this process; `write` sends a report, given its kind and fields."""

    def __init__(self, write: Callable[[str, str], None]) -> None:
        self.write = write
        self.strategies: list[str] = []
        self.cluster = 0  # tasks in the largest cluster that was joined
        self.distributed = False  # whether several tasks have trained together
        self.training = "none"
        self.sent = ""

    def send(self) -> None:
        """Send a report, if it differs from the last one."""
        names = ",".join(f'"{name}"' for name in self.strategies[:MOST])
        training = "none" if trains_otherwise() else self.training
        report = (
            f'"strategies":[{names}],"cluster":{self.cluster},'
            f'"distributed":{"true" if self.distributed else "false"},"training":"{training}"'
        )
        if report != self.sent:
            self.sent = report
            self.write("strategy", report)

    def make(self, strategy: Any, *_: object, **__: object) -> None:
        self.name(type(strategy).__name__)

    def name(self, name: str) -> None:
        name = next((shown for start, shown in NAMES if name.lstrip("_").startswith(start)), name)
        if name.isidentifier() and name not in (DEFAULT, f"{DEFAULT}V1", *self.strategies):
            self.strategies.append(name)
            self.send()

    def join(self, server_def: Any) -> None:
        try:
            size = sum(len(job.tasks) for job in server_def.cluster.job)
        except (AttributeError, TypeError):
            return
        if size > max(self.cluster, 1):
            self.cluster = size
            self.send()

    def run(self, extended: Any, *_: object, **__: object) -> None:
        """Record that a strategy runs something: when a function is traced, and for each eager step."""
        if not self.distributed and spans_tasks(extended):
            self.distribute()

    def distribute(self, *_: object, **__: object) -> None:
        if not self.distributed:
            self.distributed = True
            self.send()

    def fit(self, model: Any) -> None:
        """Record a call of `fit`, and whether its model was created in a scope."""
        try:
            name = type(model.distribute_strategy).__name__
        except Exception:  # a program's own model may raise anything
            return
        if self.training != "fit":  # one `fit` outside a scope outweighs those in a scope
            self.training = "fit" if name == DEFAULT else "scoped fit"
            self.send()

    def end(self) -> None:
        """At the end of a program that has trained nothing, check whether its `main` was never called."""
        if not self.strategies and not self.cluster and self.training == "none" and has_uncalled_main():
            self.training = "uncalled"
            self.send()

    def loop(self, *_: object, **__: object) -> None:
        """Record an optimizer or a gradient tape, with which the program's own loop may train."""
        if self.training == "none":
            self.training = "loop"
            self.send()


def spans_tasks(extended: Any) -> bool:
    """Whether a strategy, given its `extended`, is for several tasks."""
    try:
        return bool(extended._in_multi_worker_mode())
    except Exception:  # some strategies have no such method, and subclasses may raise anything
        return type(extended).__name__.startswith("ParameterServer")


def trains_otherwise() -> bool:
    """Whether the program may train on several tasks with another library than TensorFlow, or without its cluster."""
    if any(name in sys.modules for name in OTHERS):
        return True
    try:
        jax, torch = sys.modules.get("jax._src.distributed"), sys.modules.get("torch.distributed")
        backend = sys.modules.get("keras.src.backend.config")
        return bool(
            (jax is not None and jax.global_state.client is not None)
            or (torch is not None and torch.is_available() and torch.is_initialized())
            or (backend is not None and backend.backend() != "tensorflow")
        )
    except Exception:  # another version of one of these libraries
        return True


def has_uncalled_main() -> bool:
    """Whether the program defines a function `main`, and nothing in its file names it."""
    try:
        import ast  # TensorFlow has imported it

        with open(sys.modules["__main__"].__file__ or "", encoding="utf-8") as file:
            tree = ast.parse(file.read(LONGEST_PROGRAM))
    except Exception:  # there is no file, or it is not Python code
        return False
    is_defined = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)
    # A name, or a string by which a library may call the function.
    names = (getattr(node, kind, None) for node in ast.walk(tree) for kind in ("id", "attr", "value"))
    return is_defined and "main" not in names


found: list[Distribution] = []


def of_task(load: Any) -> Distribution:
    """Return the record of this process, made on the first call."""
    if not found:
        found.append(Distribution(load("task/patches/steps").steps.write))
        atexit.register(found[0].end)
    return found[0]


def watch(module: Any, load: Any) -> None:
    """Patch the classes of TensorFlow and Keras that show how the program trains."""
    known = of_task(load)
    after: dict[str, Callable[..., None]] = {
        "StrategyBase.__init__": known.make,
        "Server.__init__": lambda self, *args, **kwargs: known.join(getattr(self, "_server_def", None)),
        "CallbackList.on_train_begin": lambda self, logs=None: known.fit(self.model),
        "Mesh.__init__": lambda self, *args, **kwargs: known.name("DTensor"),
    }
    for name in ("enable_collective_ops", "set_server_def", "update_server_def"):
        after[f"Context.{name}"] = lambda self, server_def, *args, **kwargs: known.join(server_def)
    for name in ("GradientTape", "BaseOptimizer", "_BaseOptimizer", "OptimizerV2"):
        after[f"{name}.__init__"] = known.loop
    before = {
        "StrategyExtendedV2.call_for_each_replica": known.run,
        "ClusterCoordinator.schedule": known.distribute,
    }
    load("task/patches/hook").watch(module, after, before)
