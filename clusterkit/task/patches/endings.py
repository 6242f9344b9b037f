"""Lets a coordinator end when its program is done, also one that does not use `clusterkit.training`.

Loaded by path: standard library only.
"""

from __future__ import annotations

import atexit
from typing import Any


def end_without_workers(module: Any, load: object) -> None:
    """Skip the coordinator's farewell to its workers at exit, as `training.serve()` does, which explains why."""
    atexit.register(setattr, module.ClusterCoordinator, "__del__", lambda self: None)
