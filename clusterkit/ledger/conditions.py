"""The conditions, derived from a run's events, that determine what the run is doing at a given moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from clusterkit.ledger.stretch import Activity
from clusterkit.words.model import Task, TaskType

CHECKPOINT = "checkpoint"  # the name of the phase in which training/checkpointer.py saves and restores
MOST_PHASES = 8  # the maximum number of simultaneous phases counted per task; a program may report any number


@dataclass(slots=True)
class Conditions:
    """Tracks a run's conditions. A condition that has ended counts until the next step, which it may have delayed."""

    beginning: Activity = Activity.WAITING  # the activity until the first step is reported
    has_steps: bool = False  # True once a step was reported
    succeeded: bool = False
    ends: bool = False  # True once the run has succeeded or is being ended
    finished: bool = False
    steps_complete: bool = False  # True once the last announced step was completed
    failed: set[Task] = field(default_factory=set)  # failed tasks whose restart has not been decided yet
    paused: set[Task] = field(default_factory=set)
    unspawned: set[Task] = field(default_factory=set)  # restarting tasks without a process
    stalled: str | None = None  # the task that holds up the others, or "" if unknown; None if there is no stall
    causes: dict[Activity, str] = field(default_factory=dict)  # the newest cause of each activity, as text
    _ending: set[Task] = field(default_factory=set)  # tasks that are being ended
    _restarting: set[Task] = field(default_factory=set)
    _partitions: set[int] = field(default_factory=set)
    _phases: dict[Task, dict[str, Activity]] = field(default_factory=dict)
    _phase_counts: Counter[Activity] = field(default_factory=Counter)  # the number of current phases by activity
    _lingering: set[Activity] = field(default_factory=set)

    def activity(self, repairing: bool) -> Activity:
        """Return the current activity. `repairing` is True if training has completed no new step since a restart."""
        if self.ends:
            return Activity.ENDING
        if self.paused:
            return Activity.PAUSED
        if self.failed:
            return Activity.FAILED
        if repairing:
            return Activity.RESTARTING if self.unspawned else Activity.RESTARTED
        if not self.has_steps:
            return self.beginning
        if self._phase_counts:
            return Activity.SAVING if Activity.SAVING in self._phase_counts else Activity.EVALUATING
        if self.steps_complete:
            return Activity.ENDING
        if Activity.PAUSED in self._lingering:
            return Activity.PAUSED
        if self._partitions or Activity.PARTITION in self._lingering:
            return Activity.PARTITION
        return Activity.TASK_DOWN if self._restarting or Activity.TASK_DOWN in self._lingering else Activity.RUNNING

    def stepped(self) -> None:
        self._lingering.clear()
        self.stalled = None

    def spawned(self, task: Task, trains: bool) -> None:
        self._ending.discard(task)
        self.unspawned.discard(task)
        if task in self._restarting:
            self._restarting.discard(task)
            self._lingering.add(Activity.TASK_DOWN)
        if trains and self.beginning is Activity.WAITING:
            self.beginning = Activity.STARTING

    def exited(self, task: Task, ok: bool, halts_training: bool) -> None:
        """Note that a process ended or did not start. `halts_training` is True if training needs the task."""
        self.paused.discard(task)
        self._phase_counts -= Counter(self._phases.pop(task, {}).values())
        if not ok and task not in self._ending and task.type is not TaskType.EVALUATOR:
            (self.failed if halts_training else self._restarting).add(task)
            self.causes[Activity.TASK_DOWN] = str(task)

    def continued(self, tasks: Iterable[Task]) -> Conditions:
        """Return the conditions in the next allocation, in which every task starts again."""
        return Conditions(
            self.beginning,
            self.has_steps,
            self.succeeded,
            ends=self.succeeded,
            unspawned=set(tasks),
            causes=self.causes,
        )

    def task_ends(self, task: Task) -> None:
        self._ending.add(task)

    def pause(self, task: Task, paused: bool) -> None:
        """Note that a task was paused, by a signal or in a debugger, or continues."""
        if paused and task.type is not TaskType.EVALUATOR:
            self.paused.add(task)
            self.causes[Activity.PAUSED] = " and ".join(map(str, sorted(self.paused)))
        elif task in self.paused:
            self.paused.discard(task)
            self._lingering.add(Activity.PAUSED)

    def partition(self, number: int, fault: str) -> None:
        self._partitions.add(number)
        self.causes[Activity.PARTITION] = fault

    def heal(self, number: int) -> None:
        """Note that a fault was healed. Only partitions matter here."""
        if number in self._partitions:
            self._partitions.discard(number)
            self._lingering.add(Activity.PARTITION)

    def phase(self, task: Task, phase: str, begun: bool) -> None:
        """Note that a training task begins or ends a phase without steps."""
        known = self._phases.setdefault(task, {})
        if begun and phase not in known and len(known) < MOST_PHASES:
            known[phase] = Activity.SAVING if phase == CHECKPOINT else Activity.EVALUATING
            self._phase_counts[known[phase]] += 1
        elif not begun and phase in known:
            self._phase_counts -= Counter([known.pop(phase)])
        if not known:
            del self._phases[task]
