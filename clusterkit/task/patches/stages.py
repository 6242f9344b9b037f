"""Reports the stages of a program's start: TensorFlow imported, server started, cluster connected, training prepared.

Loaded by path: imports only standard modules that entry.py has already imported. Each stage is reported only once, so
training is not slowed down.
"""

from __future__ import annotations

from functools import partial
from typing import Any

# Maps a method to the stage that is reached when the method returns. A worker's strategy waits for all of its peers.
# The stage "prepared" is reached after `on_train_begin`, since its callbacks may restore the model.
AFTER = {
    "Server.__init__": "serving",
    "CollectiveAllReduceStrategy.__init__": "connected",
    "ClusterCoordinator.__init__": "connected",
    "CallbackList.on_train_begin": "prepared",
}
FIRST = {"ClusterCoordinator.schedule": "prepared"}
reached: set[str] = set()


def watch_import(module: object, load: Any) -> None:
    """Report that TensorFlow is imported. In a fork, which inherits the import, do this at the start of the program."""
    reach(load, "imported")


def watch(module: Any, load: Any) -> None:
    after, first = ({path: partial(reach, load, stage) for path, stage in each.items()} for each in (AFTER, FIRST))
    load("task/patches/hook").watch(module, after, first_calls=first)


def reach(load: Any, stage: str, *_: object, **__: object) -> None:
    if stage not in reached:
        reached.add(stage)
        load("task/patches/steps").steps.write("stage", f'"stage":"{stage}"')
