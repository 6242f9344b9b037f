"""Reports how far the start of a program is: TensorFlow imported, server up, connected, first step about to begin.

Loaded by path: standard library only, and no module that entry.py has not imported. Each stage is reported once, so
that training does not become slower.
"""

from __future__ import annotations

import os
from typing import Any


class Stages:
    """Reports each stage of this process once."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.reached: set[str] = set()

    def reach(self, stage: str) -> None:
        """Report a stage, unless this is a fork of the task's process. Keeps no descriptor open."""
        if stage in self.reached:
            return
        self.reached.add(stage)
        path, attempt = os.environ.get("CLUSTERKIT_PROGRESS"), os.environ.get("CLUSTERKIT_ATTEMPT", "1")
        if path is None or os.getpid() != self.pid:
            return
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # the supervisor is gone, which must not stop the program
            return
        try:
            os.write(descriptor, f'{{"kind":"stage","attempt":{attempt},"stage":"{stage}"}}\n'.encode())
        except OSError:  # the pipe is full
            pass
        finally:
            os.close(descriptor)


stages = Stages()


def watch_import(module: object, load: object) -> None:
    """Report that TensorFlow is imported; in a fork, that is so when the program begins."""
    stages.reach("imported")


def watch_server(module: Any, load: Any) -> None:
    """Report that the task's server is up, also in a program that does not use `clusterkit.training`."""
    load("task/patches/hook").after(module.Server, "__init__", lambda *args, **kwargs: stages.reach("serving"))


def watch_strategy(module: Any, load: Any) -> None:
    """Report that a worker's strategy is made. It is made when every peer has connected."""
    after = load("task/patches/hook").after
    after(module.CollectiveAllReduceStrategy, "__init__", lambda *args, **kwargs: stages.reach("connected"))


def watch_coordinator(module: Any, load: Any) -> None:
    """Report that the coordinator is connected, and that it is about to schedule its first step."""
    kind, hook = module.ClusterCoordinator, load("task/patches/hook")
    hook.after(kind, "__init__", lambda *args, **kwargs: stages.reach("connected"))
    hook.before(kind, "schedule", lambda *args, **kwargs: stages.reach("prepared"))


def watch_fit(module: Any, load: Any) -> None:
    """Report that `fit` is about to make its first step; callbacks have restored what they restore by then."""
    after = load("task/patches/hook").after
    after(module.CallbackList, "on_train_begin", lambda *args, **kwargs: stages.reach("prepared"))
