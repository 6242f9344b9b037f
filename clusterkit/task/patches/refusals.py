"""Ends a program that can't work in this task, with a message that names the line of the program and a remedy."""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any, NoReturn

LIBRARIES = ("keras", "tf_keras", "tensorflow", "clusterkit", "threading")  # packages that do not belong to the program
REFUSED = 78  # the exit code; a copy of REFUSED in words/outcome.py
OLDEST_FOR_FIT = (3, 10)  # the first version of Keras 3 whose losses and metrics are correct with several replicas
OLDEST_FOR_OPTIMIZERS = (3, 5)  # the first version of Keras 3 whose optimizers sum the gradients of all workers


def refuse_fit(trainer: Any, load: object) -> None:
    """Patch Keras 3 to exit if a model trains, evaluates or predicts under ParameterServerStrategy."""
    model = trainer.TensorFlowTrainer
    plain = model.distribute_strategy

    def distribute_strategy(self: Any) -> Any:
        strategy = plain.fget(self)
        if isinstance(strategy, trainer.tf.distribute.ParameterServerStrategy):
            method, place = library_call(sys._getframe(1))
            version = ".".join(trainer.tf.__version__.split(".")[:2])  # tf_keras has TensorFlow's version numbers
            stop(
                f"{place} calls {method} under ParameterServerStrategy, which Keras 3 can't do. Run the job with "
                f"--keras 2 (pip install 'tf_keras=={version}.*'), whose {method} can, or write a "
                f"training loop with ClusterCoordinator."
            )
        return strategy

    model.distribute_strategy = property(distribute_strategy)


def refuse_old_keras(frame: FrameType | None) -> None:
    """Exit if this version of Keras trains a different model on several workers than in a single process."""
    version = keras_version()
    if is_new_enough(version, OLDEST_FOR_FIT):
        return
    method, place = library_call(frame)
    stop(
        f"{place} calls {method} on several workers with Keras {version}, which adds up their losses or metrics "
        f"wrongly. Upgrade it (pip install 'keras>=3.10'), or run the job with --keras 2. --no-patches trains with "
        f"Keras {version} as it is."
    )


def refuse_unknown_keras(frame: FrameType | None, error: Exception) -> NoReturn:
    """Exit because the patches do not support the internals of this version of Keras."""
    method, place = library_call(frame)
    stop(
        f"{place} calls {method} on several workers with Keras {keras_version()}, which clusterkit does not know how "
        f"to patch ({type(error).__name__}: {error}). Install a version that docs/versions.md names, or run the job "
        f"with --keras 2. --no-patches trains with Keras {keras_version()} as it is, which is wrong on several workers."
    )


def refuse_old_optimizers(module: Any, load: Any) -> None:
    """Patch optimizers to exit if this version of Keras does not add up the gradients of the workers."""

    def refuse_old(self: object, *args: object, **kwargs: object) -> None:
        if not is_new_enough(version := keras_version(), OLDEST_FOR_OPTIMIZERS):
            _, place = library_call(sys._getframe(1))
            stop(
                f"{place} creates an optimizer of Keras {version}, which does not add up the gradients of workers. "
                f"Each would train a different model. Upgrade Keras (pip install 'keras>=3.5'), or run the job with "
                f"--keras 2. --no-patches trains with Keras {version} as it is."
            )

    load("task/patches/hook").before(module.BaseOptimizer, "__init__", refuse_old)


def keras_version() -> str:
    """Return the version of Keras 3. An unknown version is returned as 3.10, which passes every version check."""
    return str(getattr(sys.modules.get("keras"), "__version__", "3.10"))


def is_new_enough(version: str, oldest: tuple[int, int]) -> bool:
    return tuple(map(int, version.split(".")[:2])) >= oldest


def refuse_coordination(module: Any, load: Any) -> None:
    """Patch the constructors of the strategy and the coordinator to exit, since only the chief may create them."""
    for name in ("ParameterServerStrategyV2", "ClusterCoordinator"):

        def refuse(*args: object, what: str = name.removesuffix("V2"), **kwargs: object) -> None:
            is_unresolved = what.endswith("Strategy") and len(args) < 2 and "cluster_resolver" not in kwargs
            lacks = "Its cluster_resolver is missing, too. " if is_unresolved else ""
            task, (_, place) = os.environ.get("CLUSTERKIT_TASK", "this task"), library_call(sys._getframe(1))
            stop(
                f"{task} has reached the coordinator's code: {place} creates a {what}, which only the chief can do. "
                f"{lacks}Start a tf.distribute.Server in {task} instead, as clusterkit.training.serve() does, or run "
                f"the job with --servers builtin: then workers and parameter servers run clusterkit's server and not "
                f"the program."
            )

        load("task/patches/hook").watch(module, {}, {f"{name}.__init__": refuse})


def library_call(frame: FrameType | None) -> tuple[str, str]:
    """Return the name of the library method that the program has called, and the file and line of the call."""
    called = ""
    while frame is not None and _is_of_a_library(str(frame.f_globals.get("__name__", ""))):
        if "self" in frame.f_locals:  # a frame without `self` belongs to a wrapper, not to the method
            called = frame.f_code.co_name
        frame = frame.f_back
    if frame is None:
        return called, "the program"
    file = frame.f_code.co_filename.rpartition("/")[2]
    return called, f"{file}, line {frame.f_lineno},"


def _is_of_a_library(module: str) -> bool:
    return module.partition(".")[0] in LIBRARIES or module.startswith("task/patches/")


def stop(sentence: str) -> NoReturn:
    """Print the sentence, and exit with REFUSED, the exit code after which clusterkit does not restart a task."""
    refusal = SystemExit(f"clusterkit: {sentence}")
    refusal.code = REFUSED
    print(refusal, file=sys.stderr, flush=True)
    raise refusal
