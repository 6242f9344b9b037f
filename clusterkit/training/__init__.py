"""What a training program may use inside a task: its role, progress reports, checkpoints that survive a kill.

Works the same outside clusterkit: reports go nowhere, and there is one task. Only `Checkpointer`, `ReportProgress` and
`serve()` import tensorflow, and only once they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterkit.training.checkpointer import Checkpointer as Checkpointer
    from clusterkit.training.checkpointer import CheckpointMismatch as CheckpointMismatch
    from clusterkit.training.keras_callback import ReportProgress as ReportProgress
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
    from clusterkit.training.rounds import Rounds as Rounds
    from clusterkit.training.server import serve as serve

_HOMES = {
    "checkpointer": ("Checkpointer", "CheckpointMismatch"),
    "keras_callback": ("ReportProgress",),
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
    ),
    "rounds": ("Rounds",),
    "server": ("serve",),
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
