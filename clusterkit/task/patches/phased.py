"""Reports the phases that begin with calls of TensorFlow or Keras: saving, restoring, evaluating and training.

This file imports only standard modules that entry.py has already imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterkit.task.patches.phases import Phases

OPEN, WRITE, RENAME = "saving-open", "saving-write", "saving-rename"
# FUNCTIONS maps each function to the phases that it enters, outermost first. The functions may call one another.
SAVES, EXPORTS, READS = ("saving",), ("exporting", "saving"), ("restoring",)
LOADS = (*READS, "loading")  # for functions that may read files in C code, without Python's audit events
FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Checkpoint.save", "Checkpoint.write", "CheckpointManager.save", "Saver.save"), SAVES),
    **dict.fromkeys(("save_model", "save_weights", "save_weights_only", "save_and_return_nodes", "export"), EXPORTS),
    **dict.fromkeys(("Model.save", "Model.save_weights", "Model.export"), EXPORTS),
    **dict.fromkeys(("Checkpoint.restore", "Checkpoint.read", "Saver.restore", "Checkpointer.restore"), READS),
    **dict.fromkeys(("load_model", "load_weights", "load_weights_only", "load_partial", "Model.load_weights"), LOADS),
    "TensorFlowTrainer.evaluate": ("evaluating",),
    "Model.evaluate": ("evaluating",),
}
STEPS = (
    "CallbackList.on_train_batch_begin", "ClusterCoordinator.schedule", "StrategyBase.run",
    "BaseOptimizer.apply", "_BaseOptimizer.apply_gradients", "OptimizerV2.apply_gradients",
)  # fmt: skip

# The program makes these calls in each step of a compiled loop, where it makes none of STEPS.
CONTINUES = ("Function.__call__", "ProgressChannel.progress", "ProgressChannel.progress_with")


class Operations:
    """A stand-in for TensorFlow's module of C functions that reports eager operations that write checkpoints."""

    def __init__(self, plain: Any, phases: Phases) -> None:
        self.plain = plain
        self.phases = phases

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    def TFE_Py_FastPathExecute(self, context: Any, name: str, *args: Any) -> Any:
        for phase in {"SaveV2": (OPEN, WRITE), "MergeV2Checkpoints": (RENAME,)}.get(name, ()):
            self.phases.save(phase)
        return self.plain.TFE_Py_FastPathExecute(context, name, *args)


def watch(module: Any, load: Any) -> None:
    """Patch the functions of a module by which phases are recognized: FUNCTIONS, STEPS and a few others."""
    hook, phases = load("task/patches/hook"), load("task/patches/phases").phases
    before = {
        **dict.fromkeys(STEPS, phases.step),
        **dict.fromkeys(CONTINUES, phases.settle),
        "CallbackList.on_test_begin": phases.evaluate,
        "NewCheckpointReader": phases.read,
        "MultiDeviceSaver.save": partial(save_on_several, phases, module),
        "File.__init__": partial(open_hdf5, phases),
        "File.close": partial(close_hdf5, phases),
    }
    for path in (*FUNCTIONS, *before):
        owner, _, name = path.rpartition(".")
        target = getattr(module, owner, None) if owner else module
        if target is None or not hasattr(target, name):
            continue
        if path in FUNCTIONS:
            hook.replace(target, name, followed(getattr(target, name), FUNCTIONS[path], phases))
        else:
            hook.before(target, name, before[path])


def followed(plain: Callable[..., Any], kinds: tuple[str, ...], phases: Phases) -> Callable[..., Any]:
    """Return a function that reports these phases around a call of `plain`."""

    def patched(*args: Any, **kwargs: Any) -> Any:
        has_returned, entered = False, list[str]()
        try:
            for kind in kinds:
                entered.append(kind)
                phases.enter(kind)
            result = plain(*args, **kwargs)
            has_returned = True
        finally:
            for kind in reversed(entered):
                phases.leave(kind, has_returned)
        return result

    return patched


def watch_operations(module: Any, load: Any) -> None:
    """Patch the module with TensorFlow's file operations to report those that write checkpoints."""
    module.pywrap_tfe = Operations(module.pywrap_tfe, load("task/patches/phases").phases)


def watch_files(module: Any, load: Any) -> None:
    """Patch TensorFlow's Python functions for files to report writes and renames."""
    hook, phases = load("task/patches/hook"), load("task/patches/phases").phases
    hook.before(module.FileIO, "_prewrite_check", partial(write_file, phases))
    hook.before(module, "rename_v2", lambda src, dst, overwrite=False: phases.renaming(src, dst))
    hook.after(module, "rename_v2", lambda src, dst, overwrite=False: phases.renamed(src, dst))


def save_on_several(phases: Phases, module: Any, saver: Any, *_: object, **__: object) -> None:
    """Report all phases of a save before it begins, if a `tf.function` writes the checkpoint on several tasks."""
    calls: tuple[str, ...] = ()
    with phases.own():
        is_function = module.context.executing_eagerly() and saver._num_unique_tasks > 1
        calls = (OPEN, WRITE, RENAME) if is_function else ()
    for phase in calls:
        phases.save(phase)


def write_file(phases: Phases, file: Any) -> None:
    """Report that a TensorFlow file object is about to write and, before the first write, to open its file."""
    is_open, path = True, phases.find(file.name)
    with phases.own():
        is_open = file._writable_file is not None
    if path and not is_open:
        phases.save(OPEN, path)
    if path:
        phases.save(WRITE)


def open_hdf5(phases: Phases, _: object, name: Any, mode: str = "r", *args: object, **kwargs: object) -> None:
    """Report that C code is about to open an HDF5 file."""
    if isinstance(name, str | bytes | os.PathLike) and (path := phases.find(name)):
        if mode == "r":
            phases.read(path)
        else:
            phases.save(OPEN, path)


def close_hdf5(phases: Phases, file: Any) -> None:
    """Report that an HDF5 file is about to be closed, which writes its remaining data."""
    path = ""
    with phases.own():
        path = file.filename if file and file.mode != "r" and file.driver != "fileobj" else ""
    if path and phases.find(path):
        phases.save(WRITE)
