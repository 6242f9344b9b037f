"""Endings: a coordinator whose program does not know `clusterkit.training` ends when it is done, too.

Loaded by path: standard library only.
"""

from __future__ import annotations

import atexit
from typing import Any


def end_without_workers(module: Any, load: object) -> None:
    """Let the coordinator go without a farewell to its workers, as `training.serve()` does, which says why."""
    atexit.register(setattr, module.ClusterCoordinator, "__del__", lambda self: None)
