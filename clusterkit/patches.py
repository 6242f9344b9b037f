"""Repairs Keras on several workers, in programs that `clusterkit up` does not start."""

from __future__ import annotations

import importlib
import json
import os
import sys

from clusterkit.job.keras import PATCHES, patches_of
from clusterkit.task.patches import hook
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Program, ProgramKind, Task, TaskType

REPAIRS = ("keras-fit", "order", "callbacks-apart", "backup-whole")


def apply() -> None:
    """Repair Keras in this process, as `clusterkit up` does in each of its tasks.

    With MultiWorkerMirroredStrategy, Keras 3's `fit`, `evaluate` and `predict` fail or give wrong results, and the
    callbacks of all workers write the same files. `apply` does nothing in a single process, with parameter servers, or
    if called again. TF_CONFIG says which worker this is. Call `apply` in every worker before the model is created::

        from clusterkit import patches

        patches.apply()

    Raises:
        ValueError: TF_CONFIG is set and does not describe a task of a cluster.
    """
    text = os.environ.get("TF_CONFIG")
    if text is None or hasattr(sys, hook.MARK):
        return
    job, task = _read(text)
    known = os.environ.get(PATCHES) or patches_of(job, task)  # a process that a task starts has the task's variables
    names = [name for name in known.split(",") if name in REPAIRS]
    hook.install(names, lambda name: importlib.import_module(f"clusterkit.{name.replace('/', '.')}"))


def _read(text: str) -> tuple[JobSpec, Task]:
    try:
        config = json.loads(text)
        counts = {TaskType(name): len(addresses) for name, addresses in config["cluster"].items()}
        task = Task(TaskType(config["task"]["type"]), int(config["task"]["index"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"TF_CONFIG does not describe a task of a cluster ({type(error).__name__}): {text:.200}"
        ) from None
    return JobSpec(Program(ProgramKind.SCRIPT, "this program"), counts), task
