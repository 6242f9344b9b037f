"""Reports how far the start of a program is: TensorFlow imported, server up, connected, first step about to begin.

Loaded by path: standard library only, and no module that entry.py has not imported. Each stage is reported once, so
that training does not become slower.
"""

from __future__ import annotations

from functools import partial
from typing import Any

# What has returned when a stage is reached. A worker's strategy is made when every peer has connected; `fit` has run
# the callbacks that restore a model before its first step.
AFTER = {
    "Server.__init__": "serving",
    "CollectiveAllReduceStrategy.__init__": "connected",
    "ClusterCoordinator.__init__": "connected",
    "CallbackList.on_train_begin": "prepared",
}
BEFORE = {"ClusterCoordinator.schedule": "prepared"}
reached: set[str] = set()


def watch_import(module: object, load: Any) -> None:
    """Report that TensorFlow is imported; in a fork, that is so when the program begins."""
    reach(load, "imported")


def watch(module: Any, load: Any) -> None:
    """Patch a module to report the stages that its classes show."""
    after, before = ({path: partial(reach, load, stage) for path, stage in each.items()} for each in (AFTER, BEFORE))
    load("task/patches/hook").watch(module, after, before)


def reach(load: Any, stage: str, *_: object, **__: object) -> None:
    """Report a stage, once."""
    if stage not in reached:
        reached.add(stage)
        load("task/patches/steps").steps.write("stage", f'"stage":"{stage}"')
