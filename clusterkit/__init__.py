"""clusterkit: a local multi-worker cluster orchestrator for TensorFlow."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterkit.api import Attempt as Attempt
    from clusterkit.api import Cluster as Cluster
    from clusterkit.api import ClusterFailed as ClusterFailed
    from clusterkit.api import Result as Result
    from clusterkit.api import RunEnded as RunEnded
    from clusterkit.api import StillRunning as StillRunning
    from clusterkit.api import TaskHandle as TaskHandle
    from clusterkit.api import WaitTimeout as WaitTimeout
    from clusterkit.store.control import Refused as Refused
    from clusterkit.words.errors import BadJob as BadJob
    from clusterkit.words.errors import ClusterkitError as ClusterkitError
    from clusterkit.words.errors import RunDirectoryError as RunDirectoryError
    from clusterkit.words.events import AttemptEnded as AttemptEnded
    from clusterkit.words.events import Checkpointed as Checkpointed
    from clusterkit.words.events import Exited as Exited
    from clusterkit.words.events import Failed as Failed
    from clusterkit.words.events import FaultHealed as FaultHealed
    from clusterkit.words.events import FaultInjected as FaultInjected
    from clusterkit.words.events import Finished as Finished
    from clusterkit.words.events import Inspected as Inspected
    from clusterkit.words.events import KeepsUp as KeepsUp
    from clusterkit.words.events import Progressed as Progressed
    from clusterkit.words.events import Ready as Ready
    from clusterkit.words.events import RestartPlanned as RestartPlanned
    from clusterkit.words.events import Resumed as Resumed
    from clusterkit.words.events import Shrunk as Shrunk
    from clusterkit.words.events import Spawned as Spawned
    from clusterkit.words.events import Stopping as Stopping
    from clusterkit.words.events import Straggling as Straggling
    from clusterkit.words.events import Succeeded as Succeeded
    from clusterkit.words.events import TrainAlone as TrainAlone
    from clusterkit.words.events import Verified as Verified
    from clusterkit.words.events import Warned as Warned

__version__ = "0.1.0"

# These names are imported on use: every module of clusterkit imports this one first, and commands must start instantly.
_NAMES = {
    "api": ("Attempt", "Cluster", "ClusterFailed", "Result", "RunEnded", "StillRunning", "TaskHandle", "WaitTimeout"),
    "store.control": ("Refused",),
    "words.errors": ("BadJob", "ClusterkitError", "RunDirectoryError"),
    "words.events": (
        "AttemptEnded",
        "Checkpointed",
        "Exited",
        "Failed",
        "FaultHealed",
        "FaultInjected",
        "Finished",
        "Inspected",
        "KeepsUp",
        "Progressed",
        "Ready",
        "RestartPlanned",
        "Resumed",
        "Shrunk",
        "Spawned",
        "Stopping",
        "Straggling",
        "Succeeded",
        "TrainAlone",
        "Verified",
        "Warned",
    ),
}
_HOME_OF = {name: f"clusterkit.{module}" for module, names in _NAMES.items() for name in names}
__all__ = ["__version__", *sorted(_HOME_OF)]
_HOME_OF["load_ipython_extension"] = "clusterkit.notebook.magics"  # for IPython, which may not be installed


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOME_OF]
