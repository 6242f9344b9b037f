"""The conditions that decide whether a run trains at a moment, derived from its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from clusterkit.ledger.stretch import Activity
from clusterkit.words.model import Task, TaskType

CHECKPOINT = "checkpoint"  # the name of the phase in which training/checkpointer.py saves and restores
MOST_PHASES = 8  # the highest number of simultaneous phases of a task; a program may report any number


@dataclass(slots=True)
class Conditions:
    """Follows the conditions of a run. An ended condition lingers until the next step, which it may have delayed."""

    beginning: Activity = Activity.WAITING  # the progress of the start-up
    seen: bool = False  # True once a step was reported
    succeeded: bool = False
    over: bool = False  # True once the run has succeeded or is being ended
    finished: bool = False
    complete: bool = False  # True once the last announced step was made
    failed: set[Task] = field(default_factory=set)  # failed tasks, whose restart is not decided yet
    paused: set[Task] = field(default_factory=set)
    unspawned: set[Task] = field(default_factory=set)  # restarting tasks without a process
    stalled: str | None = None  # the task that holds up the others, or ""; None without a stall
    cause: dict[Activity, str] = field(default_factory=dict)  # the newest cause of each activity, for people
    _asked: set[Task] = field(default_factory=set)  # tasks that are being ended
    _away: set[Task] = field(default_factory=set)
    _cuts: set[int] = field(default_factory=set)
    _phases: dict[Task, dict[str, Activity]] = field(default_factory=dict)
    _open: Counter[Activity] = field(default_factory=Counter)  # the number of current phases by activity
    _lingering: set[Activity] = field(default_factory=set)

    def kind(self, repairing: bool) -> Activity:
        """Return the current activity. `repairing`: no new step was made yet after a restart."""
        if self.over:
            return Activity.ENDING
        if self.paused:
            return Activity.PAUSED
        if self.failed:
            return Activity.FAILED
        if repairing:
            return Activity.RESTARTING if self.unspawned else Activity.AGAIN
        if not self.seen:
            return self.beginning
        if self._open:
            return Activity.SAVING if Activity.SAVING in self._open else Activity.EVALUATING
        if self.complete:
            return Activity.ENDING
        if Activity.PAUSED in self._lingering:
            return Activity.PAUSED
        if self._cuts or Activity.CUT in self._lingering:
            return Activity.CUT
        return Activity.AWAY if self._away or Activity.AWAY in self._lingering else Activity.RUNNING

    def stepped(self) -> None:
        self._lingering.clear()
        self.stalled = None

    def spawned(self, task: Task, trains: bool) -> None:
        self._asked.discard(task)
        self.unspawned.discard(task)
        if task in self._away:
            self._away.discard(task)
            self._lingering.add(Activity.AWAY)
        if trains and self.beginning is Activity.WAITING:
            self.beginning = Activity.STARTING

    def exited(self, task: Task, ok: bool, halts: bool) -> None:
        """Note that a process ended or could not be started. `halts`: training can't continue without the task."""
        self.paused.discard(task)
        self._open -= Counter(self._phases.pop(task, {}).values())
        if not ok and task not in self._asked and task.type is not TaskType.EVALUATOR:
            (self.failed if halts else self._away).add(task)
            self.cause[Activity.AWAY] = str(task)

    def continued(self, tasks: Iterable[Task]) -> Conditions:
        """Return the conditions in the next allocation, in which every task starts again."""
        return Conditions(
            self.beginning, self.seen, self.succeeded, over=self.succeeded, unspawned=set(tasks), cause=self.cause
        )

    def ask(self, task: Task) -> None:
        self._asked.add(task)

    def pause(self, task: Task, paused: bool) -> None:
        """Note that a task was paused, by a signal or in a debugger, or continues."""
        if paused and task.type is not TaskType.EVALUATOR:
            self.paused.add(task)
            self.cause[Activity.PAUSED] = " and ".join(map(str, sorted(self.paused)))
        elif task in self.paused:
            self.paused.discard(task)
            self._lingering.add(Activity.PAUSED)

    def cut(self, number: int, fault: str) -> None:
        self._cuts.add(number)
        self.cause[Activity.CUT] = fault

    def heal(self, number: int) -> None:
        """Note that a fault, which may be a partition, was healed."""
        if number in self._cuts:
            self._cuts.discard(number)
            self._lingering.add(Activity.CUT)

    def phase(self, task: Task, phase: str, begun: bool) -> None:
        """Note that a training task begins or ends a phase without steps."""
        known = self._phases.setdefault(task, {})
        if begun and phase not in known and len(known) < MOST_PHASES:
            known[phase] = Activity.SAVING if phase == CHECKPOINT else Activity.EVALUATING
            self._open[known[phase]] += 1
        elif not begun and phase in known:
            self._open -= Counter([known.pop(phase)])
        if not known:
            del self._phases[task]
