"""clusterkit: a local multi-worker cluster orchestrator for TensorFlow."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterkit.api import Cluster as Cluster
    from clusterkit.api import ClusterFailed as ClusterFailed
    from clusterkit.api import Result as Result
    from clusterkit.api import RunEnded as RunEnded
    from clusterkit.api import WaitTimeout as WaitTimeout
    from clusterkit.words.errors import BadJob as BadJob
    from clusterkit.words.errors import ClusterkitError as ClusterkitError

__version__ = "0.1.0"

# Imported when they are used: every module of clusterkit imports this one first, and the command has to be instant.
_HOME_OF = {
    **dict.fromkeys(("Cluster", "ClusterFailed", "Result", "RunEnded", "WaitTimeout"), "clusterkit.api"),
    **dict.fromkeys(("BadJob", "ClusterkitError"), "clusterkit.words.errors"),
}
__all__ = ["__version__", *sorted(_HOME_OF)]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOME_OF]
