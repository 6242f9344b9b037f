"""The library for training programs: task information, strategies, progress, checkpoints, preemption, export.

Programs that use this library also run without clusterkit: they are then a single task, and reports are discarded.
Importing this package imports neither TensorFlow nor Keras; functions that need them import them on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterkit.training.background import CheckpointNotSaved as CheckpointNotSaved
    from clusterkit.training.backup import Backup as Backup
    from clusterkit.training.checkpoint_store import Checkpoint as Checkpoint
    from clusterkit.training.checkpoint_store import CheckpointUnreadable as CheckpointUnreadable
    from clusterkit.training.checkpointer import Checkpointer as Checkpointer
    from clusterkit.training.checkpointer import CheckpointMismatch as CheckpointMismatch
    from clusterkit.training.exporting import export as export
    from clusterkit.training.keras_callback import ReportProgress as ReportProgress
    from clusterkit.training.preemption import on_preemption as on_preemption
    from clusterkit.training.progress import phase as phase
    from clusterkit.training.progress import report as report
    from clusterkit.training.rounds import Rounds as Rounds
    from clusterkit.training.scaling import per_replica_batch as per_replica_batch
    from clusterkit.training.scaling import scaled as scaled
    from clusterkit.training.schedule import learning_rate as learning_rate
    from clusterkit.training.server import serve as serve
    from clusterkit.training.sidecar import new_checkpoints as new_checkpoints
    from clusterkit.training.strategies import NoTPU as NoTPU
    from clusterkit.training.strategies import StrategyUnavailable as StrategyUnavailable
    from clusterkit.training.strategies import sharded as sharded
    from clusterkit.training.strategies import strategy as strategy
    from clusterkit.training.this_task import attempt as attempt
    from clusterkit.training.this_task import checkpoint_dir as checkpoint_dir
    from clusterkit.training.this_task import has_ps as has_ps
    from clusterkit.training.this_task import in_cluster as in_cluster
    from clusterkit.training.this_task import is_chief as is_chief
    from clusterkit.training.this_task import is_coordinator as is_coordinator
    from clusterkit.training.this_task import is_evaluator as is_evaluator
    from clusterkit.training.this_task import num_ps as num_ps
    from clusterkit.training.this_task import num_workers as num_workers
    from clusterkit.training.this_task import restart_reason as restart_reason
    from clusterkit.training.this_task import run_id as run_id
    from clusterkit.training.this_task import task as task
    from clusterkit.training.this_task import task_index as task_index
    from clusterkit.training.this_task import task_type as task_type
    from clusterkit.training.this_task import tensorboard_dir as tensorboard_dir

_HOMES = {
    "background": ("CheckpointNotSaved",),
    "backup": ("Backup",),
    "checkpoint_store": ("Checkpoint", "CheckpointUnreadable"),
    "checkpointer": ("Checkpointer", "CheckpointMismatch"),
    "exporting": ("export",),
    "keras_callback": ("ReportProgress",),
    "preemption": ("on_preemption",),
    "progress": ("phase", "report"),
    "rounds": ("Rounds",),
    "scaling": ("per_replica_batch", "scaled"),
    "schedule": ("learning_rate",),
    "server": ("serve",),
    "sidecar": ("new_checkpoints",),
    "strategies": ("NoTPU", "StrategyUnavailable", "sharded", "strategy"),
    "this_task": (
        *("attempt", "checkpoint_dir", "has_ps", "in_cluster", "is_chief", "is_coordinator", "is_evaluator", "num_ps"),
        *("num_workers", "restart_reason", "run_id", "task", "task_index", "task_type", "tensorboard_dir"),
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
