"""Reports how the program trains: its strategies, the cluster that it joins, and whether several tasks train together.

This file imports only standard modules that entry.py has already imported. A report is sent when one of these facts
changes, which happens only a few times per process.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from typing import Any

MOST = 8  # the maximum number of strategies in a report
LONGEST_PROGRAM = 1 << 20  # characters; only this much of the program's file is parsed
DEFAULT = "_DefaultDistributionStrategy"  # the strategy that TensorFlow uses outside any scope
# Pairs: the beginning of a strategy class's name, and the public name of the class.
NAMES = (
    ("CollectiveAllReduceStrategy", "MultiWorkerMirroredStrategy"),
    ("ParameterServerStrategy", "ParameterServerStrategy"),
)
# Other libraries for distributed training. A program that imports one of them may not need a TensorFlow cluster.
OTHERS = ("horovod", "byteps", "mpi4py", "smdistributed", "bagua", "ray", "flwr", "tensorflow_federated")


class Distribution:
    """Collects the facts about this process's training. `write(kind, fields)` sends a report."""

    def __init__(self, write: Callable[[str, str], None]) -> None:
        self.write = write
        self.strategies: list[str] = []
        self.cluster = 0  # the number of tasks in the largest cluster that the process has joined
        self.distributed = False  # True once several tasks have trained together
        self.training = "none"
        self.outside = ""  # where `fit` was first called for a model that was created outside every scope
        self.sent = ""

    def send(self) -> None:
        """Send a report if it differs from the last one."""
        names = ",".join(f'"{name}"' for name in self.strategies[:MOST])
        training = "none" if trains_otherwise() else self.training
        report = (
            f'"strategies":[{names}],"cluster":{self.cluster},'
            f'"distributed":{"true" if self.distributed else "false"},"training":"{training}"'
        )
        if self.outside:
            report += f',"outside":{quoted(self.outside)}'
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
        """Record whether a strategy runs a function on several tasks. Called for each trace and for each eager step."""
        if not self.distributed and spans_tasks(extended):
            self.distribute()

    def distribute(self, *_: object, **__: object) -> None:
        if not self.distributed:
            self.distributed = True
            self.send()

    def fit(self, model: Any, where: Callable[[], str]) -> None:
        """Record a call of `fit`, and whether the model was created in a strategy's scope.

        A program may fit one model in a scope and another one, such as a loaded model, outside. `where` returns the
        place of the call.
        """
        try:
            name = type(model.distribute_strategy).__name__
        except Exception:  # a program's own model class may raise anything
            return
        if name != DEFAULT:
            self.training = "scoped fit"
        elif not self.outside:
            self.outside = where()
            self.training = "scoped fit" if self.training == "scoped fit" else "fit"
        self.send()

    def end(self) -> None:
        """At exit, report "uncalled" if the program has trained nothing and never calls its function `main`."""
        if not self.strategies and not self.cluster and self.training == "none" and has_uncalled_main():
            self.training = "uncalled"
            self.send()

    def loop(self, *_: object, **__: object) -> None:
        """Record that the program probably has its own training loop: it creates an optimizer or a gradient tape."""
        if self.training == "none":
            self.training = "loop"
            self.send()


def quoted(text: str) -> str:
    """Return the text as a JSON string."""
    kept = "".join(letter if letter.isprintable() and letter not in '"\\\\' else "?" for letter in text)
    return f'"{kept}"'


def spans_tasks(extended: Any) -> bool:
    try:
        return bool(extended._in_multi_worker_mode())
    except Exception:  # some strategies have no such method, and subclasses may raise anything
        return type(extended).__name__.startswith("ParameterServer")


def trains_otherwise() -> bool:
    """Return whether the program may train on several tasks with a library other than TensorFlow."""
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
    except Exception:  # an unknown version of one of these libraries
        return True


def has_uncalled_main() -> bool:
    """Return whether the program defines a function `main` and its file contains no other mention of that name."""
    try:
        import ast  # already imported by TensorFlow

        with open(sys.modules["__main__"].__file__ or "", encoding="utf-8") as file:
            tree = ast.parse(file.read(LONGEST_PROGRAM))
    except Exception:  # the program has no file, or the file is not Python code
        return False
    is_defined = any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)
    # Names in string constants count, since a library may look up and call the function by its name.
    names = (getattr(node, kind, None) for node in ast.walk(tree) for kind in ("id", "attr", "value"))
    return is_defined and "main" not in names


instances: list[Distribution] = []


def of_task(load: Any) -> Distribution:
    """Return the Distribution of this process, which the first call creates."""
    if not instances:
        instances.append(Distribution(load("task/patches/steps").steps.write))
        atexit.register(instances[0].end)
    return instances[0]


def watch(module: Any, load: Any) -> None:
    """Patch the classes of TensorFlow and Keras that show how the program trains."""
    distribution = of_task(load)

    def where() -> str:
        """Return the file and line of the program that has called `fit`."""
        _, place = load("task/patches/refusals").library_call(sys._getframe(1))
        return str(place).rstrip(",")

    after: dict[str, Callable[..., None]] = {
        "StrategyBase.__init__": distribution.make,
        "Server.__init__": lambda self, *args, **kwargs: distribution.join(getattr(self, "_server_def", None)),
        "CallbackList.on_train_begin": lambda self, logs=None: distribution.fit(self.model, where),
        "Mesh.__init__": lambda self, *args, **kwargs: distribution.name("DTensor"),
    }
    for name in ("enable_collective_ops", "set_server_def", "update_server_def"):
        after[f"Context.{name}"] = lambda self, server_def, *args, **kwargs: distribution.join(server_def)
    for name in ("GradientTape", "BaseOptimizer", "_BaseOptimizer", "OptimizerV2"):
        after[f"{name}.__init__"] = distribution.loop
    before = {"StrategyExtendedV2.call_for_each_replica": distribution.run}
    first = {"ClusterCoordinator.schedule": distribution.distribute}
    load("task/patches/hook").watch(module, after, before, first)
