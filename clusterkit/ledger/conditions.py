"""Conditions: what is true of a run at a moment and bears on whether it trains, as its events say."""

from __future__ import annotations

from collections import Counter

from clusterkit.ledger.stretch import Kind
from clusterkit.words import events as ev
from clusterkit.words.model import Task, TaskType

CHECKPOINT = "checkpoint"  # the phase in which training/checkpointer.py saves and restores
MOST_PHASES = 8  # of a task at a time; a program may report anything


class Conditions:
    """Follows events that change what a run does. What is over lingers until the next step, which it may delay."""

    def __init__(self) -> None:
        self.over = False  # it succeeded, or is being ended
        self.finished = False
        self.complete = False  # the last step is made, as the program said
        self.beginning = Kind.WAITING  # how far it is before its first step
        self.failed: set[Task] = set()  # they have to restart before there is a new step; it is not decided yet
        self.paused: set[Task] = set()
        self.stalled: str | None = None  # the task that holds the others up, or ""
        self.cause: dict[Kind, str] = {}  # what came last of each kind, for people
        self._succeeded = False
        self._asked: set[Task] = set()  # they are being ended
        self._away: set[Task] = set()
        self._cuts: set[int] = set()
        self._phases: dict[Task, dict[str, Kind]] = {}
        self._open = Counter[Kind]()  # how many of the phases there are of each kind
        self._lingering: set[Kind] = set()

    def kind(self) -> Kind:
        """What goes on once steps were made, if no task is paused and nothing that training needs has failed."""
        if self._open:
            return Kind.SAVING if Kind.SAVING in self._open else Kind.EVALUATING
        if self.complete:
            return Kind.ENDING
        if Kind.PAUSED in self._lingering:
            return Kind.PAUSED
        if self._cuts or Kind.CUT in self._lingering:
            return Kind.CUT
        return Kind.AWAY if self._away or Kind.AWAY in self._lingering else Kind.RUNNING

    def stepped(self) -> None:
        """A new step was made."""
        self._lingering.clear()
        self.stalled = None

    def spawned(self, task: Task, trains: bool) -> None:
        """A process exists."""
        self._asked.discard(task)
        if task in self._away:
            self._away.discard(task)
            self._lingering.add(Kind.AWAY)
        if trains and self.beginning is Kind.WAITING:
            self.beginning = Kind.STARTING

    def exited(self, task: Task, ok: bool, halts: bool) -> None:
        """A process ended, or could not be started. `halts`: training can't go on without the task."""
        self.paused.discard(task)
        self._open -= Counter(self._phases.pop(task, {}).values())
        if not ok and task not in self._asked and task.type is not TaskType.EVALUATOR:
            (self.failed if halts else self._away).add(task)
            self.cause[Kind.AWAY] = str(task)

    def end(self, event: ev.Succeeded | ev.Stopping | ev.Finished) -> None:
        """The run succeeded, is being ended, or is over."""
        self.over = True
        self.finished = isinstance(event, ev.Finished)
        self._succeeded = self._succeeded or isinstance(event, ev.Succeeded)

    def lose_everything(self) -> None:
        """The supervisor and every process are gone, and another one continues."""
        self.over, self.finished, self.complete = self._succeeded, False, False
        self.stalled = None
        for known in (
            self.failed,
            self.paused,
            self._asked,
            self._away,
            self._cuts,
            self._phases,
            self._open,
            self._lingering,
        ):
            known.clear()

    def ask(self, task: Task) -> None:
        """A task is being ended."""
        self._asked.add(task)

    def pause(self, task: Task, paused: bool) -> None:
        """A task was paused, with a signal or in a debugger, or continues."""
        if paused and task.type is not TaskType.EVALUATOR:
            self.paused.add(task)
            self.cause[Kind.PAUSED] = " and ".join(map(str, sorted(self.paused)))
        elif task in self.paused:
            self.paused.discard(task)
            self._lingering.add(Kind.PAUSED)

    def cut(self, number: int, fault: str) -> None:
        """The network is partitioned."""
        self._cuts.add(number)
        self.cause[Kind.CUT] = fault

    def heal(self, number: int) -> None:
        """A fault is healed, which may be such a partition."""
        if number in self._cuts:
            self._cuts.discard(number)
            self._lingering.add(Kind.CUT)

    def phase(self, task: Task, phase: str, begun: bool) -> None:
        """A training task begins or ends a phase without steps."""
        known = self._phases.setdefault(task, {})
        if begun and phase not in known and len(known) < MOST_PHASES:
            known[phase] = Kind.SAVING if phase == CHECKPOINT else Kind.EVALUATING
            self._open[known[phase]] += 1
        elif not begun and phase in known:
            self._open -= Counter([known.pop(phase)])
        if not known:
            del self._phases[task]
