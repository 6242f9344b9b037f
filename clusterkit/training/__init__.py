"""What a training program may use inside a task: role, strategy, progress reports, checkpoints, preemption, export.

Works the same outside clusterkit: reports go nowhere, and there is one task. Nothing here imports tensorflow before
it is used, and what needs none never does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterkit.training.backup import Backup as Backup
    from clusterkit.training.checkpoint_store import Checkpoint as Checkpoint
    from clusterkit.training.checkpointer import Checkpointer as Checkpointer
    from clusterkit.training.checkpointer import CheckpointMismatch as CheckpointMismatch
    from clusterkit.training.devices import StrategyUnavailable as StrategyUnavailable
    from clusterkit.training.exporting import export as export
    from clusterkit.training.keras_callback import ReportProgress as ReportProgress
    from clusterkit.training.preemption import on_preemption as on_preemption
    from clusterkit.training.progress import phase as phase
    from clusterkit.training.progress import report as report
    from clusterkit.training.roles import attempt as attempt
    from clusterkit.training.roles import checkpoint_dir as checkpoint_dir
    from clusterkit.training.roles import has_ps as has_ps
    from clusterkit.training.roles import in_cluster as in_cluster
    from clusterkit.training.roles import is_chief as is_chief
    from clusterkit.training.roles import is_coordinator as is_coordinator
    from clusterkit.training.roles import is_evaluator as is_evaluator
    from clusterkit.training.roles import num_ps as num_ps
    from clusterkit.training.roles import num_workers as num_workers
    from clusterkit.training.roles import restart_reason as restart_reason
    from clusterkit.training.roles import run_id as run_id
    from clusterkit.training.roles import task as task
    from clusterkit.training.roles import task_index as task_index
    from clusterkit.training.roles import task_type as task_type
    from clusterkit.training.roles import tensorboard_dir as tensorboard_dir
    from clusterkit.training.rounds import Rounds as Rounds
    from clusterkit.training.scaling import per_replica_batch as per_replica_batch
    from clusterkit.training.scaling import scaled as scaled
    from clusterkit.training.schedule import learning_rate as learning_rate
    from clusterkit.training.server import serve as serve
    from clusterkit.training.sharding import sharded as sharded
    from clusterkit.training.sidecar import new_checkpoints as new_checkpoints
    from clusterkit.training.strategies import NoTPU as NoTPU
    from clusterkit.training.strategies import strategy as strategy

_HOMES = {
    "backup": ("Backup",),
    "checkpoint_store": ("Checkpoint",),
    "checkpointer": ("Checkpointer", "CheckpointMismatch"),
    "devices": ("StrategyUnavailable",),
    "exporting": ("export",),
    "keras_callback": ("ReportProgress",),
    "preemption": ("on_preemption",),
    "progress": ("phase", "report"),
    "roles": (
        "attempt",
        "checkpoint_dir",
        "has_ps",
        "in_cluster",
        "is_chief",
        "is_coordinator",
        "is_evaluator",
        "num_ps",
        "num_workers",
        "restart_reason",
        "run_id",
        "task",
        "task_index",
        "task_type",
        "tensorboard_dir",
    ),
    "rounds": ("Rounds",),
    "scaling": ("per_replica_batch", "scaled"),
    "schedule": ("learning_rate",),
    "server": ("serve",),
    "sharding": ("sharded",),
    "sidecar": ("new_checkpoints",),
    "strategies": ("NoTPU", "strategy"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # one list, not two that drift apart


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
