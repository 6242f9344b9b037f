"""The account of time: how a run spent its time, and what cost the most time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from clusterkit.ledger.conditions import Conditions
from clusterkit.ledger.costs import Costs, WorstCase, cause_text, recovery_text, shown
from clusterkit.ledger.incident import Incident
from clusterkit.ledger.incidents import Incidents
from clusterkit.ledger.stretch import NO_TRAINING, Activity, Stretch, TrainingTime
from clusterkit.words import events as ev
from clusterkit.words.account import PER_SECOND, Goodput
from clusterkit.words.model import Task

LATEST = 1e11  # seconds; the latest accepted time, since a damaged journal may contain any time


class TimeAccount:
    """Divides the time of a run into parts, event by event, in bounded memory.

    The time between two new steps counts as training. After a failure, steps count again once all tasks of the restart
    scope are back. When a restarted task reports a new step, the training since the checkpoint from which the task
    resumed is counted as lost instead.
    """

    def __init__(self, incidents: Incidents) -> None:
        self._incidents = incidents
        self.conditions = Conditions()
        self._now = 0  # microseconds since the run began, like all times in this class
        self._previous = 0  # the time of the previous event
        self._settled = Counter[str]()  # the settled time of each part except `training`
        self._training = TrainingTime()
        self._step = 0  # the newest step; before the first report, the step at which training begins
        self._task_steps: dict[Task, int] = {}  # the newest step of each task's current attempt
        self._stretch = Stretch(0, Activity.WAITING)
        self._starts_again = False  # True if a task's command has started another program since the last step
        self._repairs: list[Incident] = []  # restarts after which training has completed no new step yet
        self._explained_faults = set[int]()  # the faults whose injection began a recovery
        self._costs = Costs()

    def advance(self, now: float) -> None:
        """Advance the clock to the time of an event, in seconds since the run began."""
        self._previous, self._now = self._now, round(now * PER_SECOND)

    def goodput(self, at: float | None = None) -> Goodput:
        """Return how time was spent up to `at`, in seconds since the run began; by default, up to the last event."""
        until = self._now
        if at is not None and not self.conditions.finished:
            until = max(until, round(at * PER_SECOND))
        now, training = self._stretch_parts(until), self._training
        parts = self._settled + now
        parts["training"] += training.step_time + training.first_step_share
        parts["compilation"] += training.first_step_time - training.first_step_share
        costliest, most = self._costs.costliest(parts, self._current_costs(now))
        if not self.conditions.has_steps and costliest in ("startup", "compilation", "ending"):
            # Without reported steps, these parts may include training.
            costliest, most = "", ""
        return Goodput.of(parts, self.conditions.has_steps, costliest, most)

    # Steps.

    def progressed(self, event: ev.Progressed) -> None:
        """Count a step that the newest attempt of a training task reported."""
        task, step, conditions = event.task, event.step, self.conditions
        if conditions.ends:
            return
        previous, self._task_steps[task] = self._task_steps.get(task, -1), step
        if self._repairs:
            if not conditions.failed and all(one.course.settled for one in self._repairs):
                self._recovered(step)
        elif not conditions.failed and (step > self._step or step < previous):
            self._stepped(step)
        else:
            return
        if event.total is not None and step >= event.total and not self._repairs:
            conditions.steps_complete = True
            self.update_activity()

    def _stepped(self, step: int) -> None:
        """Count a new step, and settle the time before the step."""
        stretch, training = self._stretch, self._training
        if not self.conditions.has_steps:
            self._settle_first_step()
        elif self._starts_again:
            self._settle_start()
        elif stretch.is_single and stretch.kind is Activity.RUNNING and self.conditions.stalled is None:
            training.step(self._now - stretch.begin)
        else:
            self._settle_step()
        self._begin_step(step)
        if training.first_step_time and training.can_divide:
            self._settled["compilation"] += training.divide_first_step()

    def _begin_step(self, step: int) -> None:
        self._step = step
        self._training.reach(step)
        self.conditions.stepped()
        self._stretch = Stretch(self._now, self._activity())

    def _settle_start(self) -> None:
        """Count the time since the last step as start-up of the next program of a script."""
        self.conditions.steps_complete = self._starts_again = False
        trained = (Activity.RUNNING, Activity.ENDING)
        self._stretch.rename(lambda kind: Activity.STARTING if kind in trained else kind)
        self._settle()

    def _settle_step(self) -> None:
        if self.conditions.steps_complete:  # the program makes more steps than it announced
            self.conditions.steps_complete = False
            self._stretch.rename(lambda kind: Activity.RUNNING if kind is Activity.ENDING else kind)
        if self._stretch.is_single and self._stretch.kind in (Activity.SAVING, Activity.EVALUATING):
            self._stretch.rename(lambda _: Activity.RUNNING)  # the step shows that training continued in that phase
        self._settle()

    def _settle(self) -> Counter[str]:
        parts = self._stretch_parts(self._now)
        for part, (time, what) in self._current_costs(parts).items():
            if part != "recovering" or not self._repairs:  # `_recovered` adds the cost of recoveries
                self._costs.add(part, time, what)
        self._training.step_time += parts["training"]
        self._settled += parts
        del self._settled["training"]
        return parts

    def _current_costs(self, parts: Counter[str]) -> dict[str, WorstCase]:
        """Return, for each part, the cost of the current stretch and a sentence with the reason."""
        cause, found = self.conditions.causes, dict[str, WorstCase]()
        if stopped := parts["stopped"]:
            culprit = cause.get(Activity.PAUSED, "a task")
            found["stopped"] = stopped, f"Training stood still for {shown(stopped)} because {culprit} was paused"
        if stalled := parts["stalled"]:
            culprit = (
                f"{self.conditions.stalled} held it up"
                if self.conditions.stalled
                else cause.get(Activity.PARTITION, "")
            )
            what = f"Training stalled at {shown(self._stretch.begin)} for {shown(stalled)}"
            found["stalled"] = stalled, f"{what}: {culprit}" if culprit else what
        if waited := parts["recovering"]:
            culprit = cause.get(Activity.TASK_DOWN, "a task that failed")
            what = f"Training stood still for {shown(waited)} for the restart of {culprit}"
            for first in self._repairs[:1]:
                what = f"{cause_text(first, self._incidents.start_of(first))}: no new step for {shown(waited)}"
            found["recovering"] = waited, what
        return found

    def _stretch_parts(self, until: int) -> Counter[str]:
        return self._stretch.parts(until, self._training.usual, self.conditions.stalled is not None)

    def _settle_first_step(self) -> None:
        self._mark_seen()
        before, after = self._stretch.times(self._now)
        self._settle()
        if not after:
            self._training.first_step_time = before[Activity.FIRST_STEP]
            self._settled["compilation"] -= self._training.first_step_time

    def _mark_seen(self) -> None:
        """Note that the program reports steps; count the time before the first report as start-up."""
        if not self.conditions.has_steps:
            self._stretch.rename(lambda kind: Activity.STARTING if kind is Activity.NO_STEPS else kind)
        self.conditions.has_steps = True

    def _recovered(self, step: int) -> None:
        """Settle a recovery at the first new step. The training that the restarted tasks repeated counts as lost."""
        self._mark_seen()
        self._settled["compilation"] += self._training.divide_first_step()
        spent = self._settle()["recovering"]
        lost = self._training.go_back_to(min(one.kept_step for one in self._repairs))
        self._settled["lost"] += lost
        first = self._repairs[0]
        self._costs.add("recovering", spent + lost, recovery_text(first, self._incidents.start_of(first), spent, lost))
        self._repairs = []
        self._begin_step(step)

    # Other events.

    def update_activity(self) -> None:
        self._stretch.change(self._now, self._activity())

    def _activity(self) -> Activity:
        return self.conditions.activity(bool(self._repairs))

    def spawned(self, task: Task, trains: bool) -> None:
        self._task_steps.pop(task, None)
        self._starts_again = False
        self.conditions.spawned(task, trains)

    def exited(self, task: Task, ok: bool) -> None:
        """Note that a task's newest attempt ended, or could not be started."""
        self.conditions.exited(task, ok, self._incidents.halts_training(task))

    def imported(self, task: Task) -> None:
        """Note that a task has imported TensorFlow, which another program has done before if the attempt made steps."""
        if task in self._task_steps and not self._repairs:
            self._starts_again = True

    def failed(self, task: Task) -> None:
        if self._incidents.halts_training(task):
            self.conditions.failed.add(task)

    def prepared(self, step: int | None = None) -> None:
        """Note that a training task begins its first step, which follows `step`; count the time so far as start-up."""
        if not self.conditions.has_steps:
            self._step = self._step if step is None else step
            self._stretch.rename(lambda kind: Activity.STARTING if kind is Activity.FIRST_STEP else kind)
            self.conditions.beginning = Activity.FIRST_STEP

    def saved(self, step: int) -> None:
        """Note that a training task's checkpoint of this step is complete."""
        if step > self._step and not self._repairs:
            self._training.reach(step, self._stretch_parts(self._now)["training"])

    def stalled(self, task: Task | None) -> None:
        """Note a warning that training has stalled since the last step."""
        if self.conditions.has_steps and not self._repairs and not self.conditions.failed:
            self.conditions.stalled = str(task or "")

    def planned(self, tasks: Iterable[Task]) -> None:
        """Note a decided restart. If training tasks restart, count the time since the repaired failure as recovery."""
        self.conditions.unspawned.update(tasks)
        self.conditions.failed.difference_update(tasks)
        known = self._repairs
        self._repairs = self._incidents.open_training_restarts()
        for incident in self._repairs:
            if incident not in known:
                self._backdate(incident)
        if self._repairs:
            self.conditions.failed.clear()

    def _backdate(self, incident: Incident) -> None:
        """Count the time since the fault or the death as recovery, except pauses and stalls."""
        at = incident.began if self._explained_faults & set(incident.faults) else self._incidents.start_of(incident)
        self._explained_faults |= set(incident.faults)
        unchanged = {Activity.PAUSED, Activity.ENDING} | (
            {Activity.RUNNING} if self.conditions.stalled is not None else set()
        )
        unchanged |= NO_TRAINING - {Activity.FAILED}
        since = min(self._now, round(min(max(at, 0.0), LATEST) * PER_SECOND))
        self._stretch.rename(lambda kind: kind if kind in unchanged else Activity.RESTARTING, since)

    def continued(self, tasks: Iterable[Task]) -> None:
        """Note the restart of every task in another allocation. The time between the allocations counts as recovery."""
        self.conditions = self.conditions.continued(tasks)
        self._repairs = self._incidents.open_training_restarts()
        self._stretch.change(self._previous, self._activity())
        for incident in self._repairs:
            self._backdate(incident)

    def run_ends(self, event: ev.Succeeded | ev.Stopping | ev.Finished) -> None:
        """Note that the run ends. If the job succeeded, count the time after its last step as `ending`."""
        succeeded, conditions = isinstance(event, ev.Succeeded), self.conditions
        if not conditions.ends:
            renamed = {Activity.FAILED: Activity.ENDING}
            if succeeded and conditions.has_steps:
                renamed[Activity.RUNNING] = Activity.ENDING
            elif not conditions.has_steps:
                unseen = (
                    (Activity.STARTING, Activity.FIRST_STEP, Activity.RESTARTED) if succeeded else (Activity.STARTING,)
                )
                renamed |= dict.fromkeys(unseen, Activity.NO_STEPS)
            self._stretch.rename(lambda kind: renamed.get(kind, kind))
        conditions.ends, conditions.finished = True, isinstance(event, ev.Finished)
        conditions.succeeded = conditions.succeeded or succeeded
