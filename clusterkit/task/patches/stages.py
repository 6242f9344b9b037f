"""Reports the stages of a program's start: TensorFlow imported, server started, cluster connected, training prepared.

This file imports only standard modules that entry.py has already imported. Each stage is reported only once, so
training is not slowed down.
"""

from __future__ import annotations

from functools import partial
from typing import Any

# Maps a method to the stage that is reached when it returns. The constructor of a gang's strategy waits for all peers.
# The stage "prepared" is reached after `on_train_begin`, since the callbacks may restore the model.
AFTER = {
    "Server.__init__": "serving",
    "CollectiveAllReduceStrategy.__init__": "connected",
    "ClusterCoordinator.__init__": "connected",
    "CallbackList.on_train_begin": "prepared",
}
FIRST = {"ClusterCoordinator.schedule": "prepared"}
reached: set[str] = set()


def watch_import(module: object, load: Any) -> None:
    """Report that TensorFlow has been imported. A fork inherits the import, and reports it when its program starts."""
    reach(load, "imported")


def watch(module: Any, load: Any) -> None:
    after, first = ({path: partial(reach, load, stage) for path, stage in each.items()} for each in (AFTER, FIRST))
    load("task/patches/hook").watch(module, after, first_calls=first)


def reach(load: Any, stage: str, *_: object, **__: object) -> None:
    if stage not in reached:
        reached.add(stage)
        load("task/patches/steps").steps.write("stage", f'"stage":"{stage}"')
