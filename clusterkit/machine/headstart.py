"""The head start: in a warm parameter-server job the coordinator begins when its servers are up.

TensorFlow's channels try again a second after an address at which nobody listened. Forked tasks come up so fast that
this second is most of a start. Cold ones are seconds apart anyway, and are not held up.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.machine.board import Board, TaskRecord
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Spawn
from clusterkit.words.model import Shape
from clusterkit.words.states import TaskState

LONGEST = 0.5  # seconds after the last server has become a process; it may be a program that does not say Ready


@dataclass(slots=True)
class HeadStart:
    """Holds the coordinator's Spawn back."""

    board: Board
    warm: bool = False  # whether there is a fork server
    held: Spawn | None = None
    sent: Spawn | None = None  # the last one that was let go

    def settle(self) -> None:
        """Keep a new Spawn of the coordinator, or let the one go that was kept."""
        if self.held is None:
            self._hold()
        if self.held is not None and not self._has_to_wait(self.held):
            self.let_go()

    def _hold(self) -> None:
        job = self.board.job
        if not self.warm or job.shape is not Shape.PARAMETER_SERVER:
            return
        spawn = next((a for a in self.board.out if isinstance(a, Spawn) and a.task == job.leader), None)
        if spawn is not None and spawn != self.sent and self._has_to_wait(spawn):
            self.board.out.remove(spawn)
            self.held = spawn

    def _has_to_wait(self, spawn: Spawn) -> bool:
        leader = self.board.records[spawn.task]
        if not self.warm or leader.attempt != spawn.attempt or leader.asked is not None:
            return False
        coming = [r for r in self._servers() if r.state in (TaskState.STARTING, TaskState.RUNNING) and not r.ready]
        timers = self.board.timers
        if coming and all(r.state is TaskState.RUNNING for r in coming) and not timers.is_set(Timer.HEAD_START):
            timers.set(Timer.HEAD_START, self.board.now + LONGEST)
        return bool(coming)

    def let_go(self) -> None:
        """Whatever the servers do."""
        if self.held is not None:
            self.board.timers.clear(Timer.HEAD_START)
            self.board.out.insert(0, self.held)  # before what else is asked of it
            self.held, self.sent = None, self.held

    def _servers(self) -> list[TaskRecord]:
        return [record for record in self.board.records.values() if self.board.job.is_server(record.task)]
