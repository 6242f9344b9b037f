"""Restarts: an attempt after the first is started once a look has found that its host has what that takes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from clusterkit.backends.base import Post
from clusterkit.backends.hosts.fitness import Unfit
from clusterkit.system import procfs
from clusterkit.system.barrier import start_thread
from clusterkit.words.actions import Order, Signal, Spawn
from clusterkit.words.errors import CannotLook
from clusterkit.words.events import NEVER_STARTED, SpawnFailed
from clusterkit.words.model import Task


class Look(Protocol):
    """Finds out whether an attempt can start here; may take a while, and is called in a thread of its own."""

    def look(self) -> Unfit | None:
        """Why not; None if it can."""


class Restarts:
    """Holds starts back while there is a look, which is one for all that come meanwhile. For one thread.

    `needs` is what to look at now, `port` a task's own, or None.
    """

    def __init__(
        self,
        needs: Callable[[], Look],
        port: Callable[[Task], int | None],
        start: Callable[[Order], None],
        post: Post,
    ) -> None:
        self._needs, self._port, self._start, self._post = needs, port, start, post
        self._held: dict[Task, Spawn] = {}
        self._looking = False

    def do(self, order: Order) -> None:
        """Carry out an order, a restart only after a look."""
        match order:
            case Spawn(task, attempt) if attempt > 1:
                self._held[task] = order
                self._look()
            case Signal(task, attempt) if (held := self._held.get(task)) is not None and held.attempt == attempt:
                del self._held[task]
                self._post(SpawnFailed(task, attempt, NEVER_STARTED))
            case _:
                self._start(order)

    def stop(self) -> None:
        """Start nothing any more that is held back."""
        self._held.clear()

    def _look(self) -> None:
        if self._looking:
            return
        self._looking, needs = True, self._needs()

        def look() -> None:
            found = needs.look()
            self._post(lambda: self._looked(found))

        start_thread("fitness", look, self._post)

    def _looked(self, found: Unfit | None) -> None:
        self._looking = False
        held, self._held = self._held, {}
        taken = frozenset[int]()
        with suppress(CannotLook):  # then a start on a port that is taken fails by itself
            if held and found is None:
                taken = procfs.listening_ports()
        for task, order in held.items():
            port = self._port(task)
            if found is not None:
                self._post(SpawnFailed(task, order.attempt, found.why, unfit=True, unreached=found.unreached))
            elif port in taken:
                what = f"another process listens on its port {port}"
                self._post(SpawnFailed(task, order.attempt, what, unfit=True))
            else:
                self._start(order)
