"""Goodput, as a fold over the events of a run: what its time went into, and what cost most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from clusterkit.ledger.conditions import Conditions
from clusterkit.ledger.costs import Costs, Worst, cases, cause_text, recovery_text
from clusterkit.ledger.incident import Incident
from clusterkit.ledger.report import RecoveryFold
from clusterkit.ledger.stretch import DOWN, Kind, Stretch, parts_of
from clusterkit.ledger.training_time import TrainingTime
from clusterkit.machine.restart import restart_scope
from clusterkit.words import events as ev
from clusterkit.words.goodput import PER_SECOND, Goodput
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task
from clusterkit.words.startup import Stage


class GoodputFold:
    """Takes each event of a run with its time in seconds, and reports at any time how the time so far divides.

    It keeps a bounded amount, however many steps are reported. `recoveries` is the fold of the recovery report, which
    takes the same events.

    Training is what lies between two steps that a training task reported for the first time. A step counts when the
    restart scope of what failed is back. What was trained since the checkpoint that a restarted task resumed from is
    lost, once it has reported a new step.
    """

    def __init__(self, job: JobSpec) -> None:
        self.recoveries = RecoveryFold(job)
        self._job = job
        self._began: float | None = None
        self._now = 0  # microseconds since then, as all times here
        self._before = 0  # when the event before was
        self._parts = Counter[str]()  # of what is settled, without `training`
        self._training = TrainingTime()
        self._seen = False  # whether a step was reported
        self._step = 0  # the newest; before the first one, where training begins
        self._own: dict[Task, int] = {}  # the newest of each task
        self._newest: dict[Task, int] = {}  # attempt of each task
        self._stretch = Stretch(0, Kind.WAITING)
        self._conditions = Conditions()
        self._repairs: list[Incident] = []  # restarts that a new step is waited for
        self._unspawned = set[Task]()  # what restarts, and has no process yet
        self._begun_by = set[int]()  # the faults with which recoveries began
        self._costs = Costs()

    def take(self, at: float, event: ev.Event) -> None:
        """Take in an event. A clock that goes back stands still instead."""
        self._began = at if self._began is None else self._began
        self._before, self._now = self._now, self._time(at)
        self.recoveries.take(at, event)
        if isinstance(event, ev.Progressed):
            self._progressed(event)
        else:
            self._happened(event)

    def report(self, now: float | None = None) -> Goodput:
        """The split up to `now`, on the clock of the events; by default, up to the last event."""
        until = self._now if now is None or self._conditions.finished else self._time(now)
        parts = self._parts + self._of_stretch(until)
        training = self._training
        parts["training"] += training.made + training.share
        parts["compilation"] += training.first - training.share
        costliest, most = self._costs.most(parts, self._cases(self._of_stretch(until)))
        if not self._seen and costliest in ("startup", "compilation", "ending"):  # they may be the training
            costliest, most = "", ""
        return Goodput.of(parts, self._seen, costliest, most)

    def _time(self, at: float) -> int:
        return max(self._now, round((at - (self._began or 0.0)) * PER_SECOND))

    def _trains(self, task: Task) -> bool:
        return task.trains and not self._job.is_server(task)

    def _halts(self, task: Task) -> bool:
        """Whether there is no new step before training tasks have restarted with this one."""
        return any(map(self._trains, restart_scope(self._job, task)))

    # Steps.

    def _progressed(self, event: ev.Progressed) -> None:
        task, step = event.task, event.step
        if not self._trains(task) or event.attempt < self._newest.get(task, 0) or self._conditions.over:
            return
        own, self._own[task] = self._own.get(task, -1), step
        if self._repairs:
            if not self._conditions.failed and all(one.course.settled for one in self._repairs):
                self._recovered(step)
        elif not self._conditions.failed and (step > self._step or step < own):
            self._stepped(step)
        else:
            return
        if event.total is not None and step >= event.total and not self._repairs:
            self._conditions.complete = True
            self._become()

    def _stepped(self, step: int) -> None:
        """A new step: what came before it is settled."""
        stretch, conditions = self._stretch, self._conditions
        if not self._seen:
            self._take_first_step()
        elif stretch.plain and stretch.kind is Kind.RUNNING and conditions.stalled is None:
            self._training.step(self._now - stretch.begin)
        else:
            self._settle_step()
        self._begin_step(step)
        if self._training.first and self._training.known:
            self._parts["compilation"] += self._training.divide()

    def _begin_step(self, step: int) -> None:
        self._step = step
        self._training.reach(step)
        self._conditions.stepped()
        self._stretch.restart(self._now, self._kind())

    def _settle_step(self) -> None:
        if self._conditions.complete:  # there are more steps than it said
            self._conditions.complete = False
            self._stretch.rename(lambda kind: Kind.RUNNING if kind is Kind.ENDING else kind)
        if self._stretch.plain and self._stretch.kind in (Kind.SAVING, Kind.EVALUATING):
            self._stretch.rename(lambda _: Kind.RUNNING)  # steps are made beside it
        self._settle()

    def _settle(self) -> Counter[str]:
        parts = self._of_stretch(self._now)
        for part, (time, what) in self._cases(parts).items():
            if part != "recovering" or not self._repairs:  # what a recovery lost is yet to come
                self._costs.note(part, time, what)
        self._training.made += parts["training"]
        self._parts += parts
        del self._parts["training"]
        return parts

    def _cases(self, parts: Counter[str]) -> dict[str, Worst]:
        first = self._repairs[0] if self._repairs else None
        cause = None if first is None else cause_text(first, self.recoveries.began(first))
        return cases(parts, self._stretch.begin, self._conditions, cause)

    def _of_stretch(self, until: int) -> Counter[str]:
        return parts_of(self._stretch.times(until), self._training.usual, self._conditions.stalled is not None)

    def _take_first_step(self) -> None:
        self._see()
        before, after = self._stretch.times(self._now)
        self._settle()
        if not after:
            self._training.first = before[Kind.FIRST_STEP]
            self._parts["compilation"] -= self._training.first

    def _see(self) -> None:
        """Steps are reported, so what came before them can be told."""
        if not self._seen:
            self._stretch.rename(lambda kind: Kind.STARTING if kind is Kind.UNSEEN else kind)
        self._seen = True

    def _recovered(self, step: int) -> None:
        """The first new step after restarts: what they computed again is lost."""
        self._see()
        self._parts["compilation"] += self._training.divide()
        spent = self._settle()["recovering"]
        lost = self._training.return_to(min(map(_kept, self._repairs)))
        self._parts["lost"] += lost
        first = self._repairs[0]
        self._costs.note("recovering", spent + lost, recovery_text(first, self.recoveries.began(first), spent, lost))
        self._repairs = []
        self._begin_step(step)

    # Everything else.

    def _become(self) -> None:
        self._stretch.become(self._now, self._kind())

    def _kind(self) -> Kind:
        conditions = self._conditions
        if conditions.over:
            return Kind.ENDING
        if conditions.paused:
            return Kind.PAUSED
        if conditions.failed:
            return Kind.FAILED
        if self._repairs:
            return Kind.RESTARTING if self._unspawned else Kind.AGAIN
        if not self._seen:
            return conditions.beginning
        return conditions.kind()

    def _happened(self, event: ev.Event) -> None:
        conditions = self._conditions
        match event:
            case ev.Spawned(task, attempt):
                self._newest[task] = attempt
                self._own.pop(task, None)
                self._unspawned.discard(task)
                conditions.spawned(task, self._trains(task))
            case ev.Exited(task, attempt, exit_) if attempt >= self._newest.get(task, 0):
                conditions.exited(task, exit_.ok, self._halts(task))
            case ev.SpawnFailed(task, attempt):
                self._newest[task] = attempt
                conditions.exited(task, False, self._halts(task))
            case ev.Failed(failure) if self._halts(failure.task):
                conditions.failed.add(failure.task)
            case ev.RestartPlanned(tasks):
                self._unspawned.update(tasks)
                self._planned(tasks)
            case ev.Continued():
                self._continued()
            case ev.Resumed(task, _, step) if self._trains(task):
                self._prepared(step)
            case ev.Reached(task, stage=Stage.PREPARED) if self._trains(task):
                self._prepared(self._step)
            case ev.Checkpointed(task, _, step) if self._trains(task) and step > self._step and not self._repairs:
                self._training.reach(step, self._of_stretch(self._now)["training"])
            case ev.Succeeded() | ev.Stopping() | ev.Finished():
                self._ends(event)
                return
            case ev.Stalled(_, task):
                self._stalled(task)
            case _:
                conditions.take(event, self._trains)
        self._become()

    def _stalled(self, task: Task | None) -> None:
        """A stall was warned of. It began with the last step."""
        if self._seen and not self._repairs and not self._conditions.failed:
            self._conditions.stalled = str(task or "")

    def _prepared(self, step: int) -> None:
        """The first step begins now, after that one; what came before was still preparation."""
        if not self._seen:
            self._step = step
            self._stretch.rename(lambda kind: Kind.STARTING if kind is Kind.FIRST_STEP else kind)
            self._conditions.beginning = Kind.FIRST_STEP

    def _planned(self, tasks: Iterable[Task]) -> None:
        """A restart is decided. If training tasks are in it, the recovery has begun with what is repaired."""
        self._conditions.failed.difference_update(tasks)
        known = self._repairs
        self._repairs = self.recoveries.repairs()
        for incident in self._repairs:
            if incident not in known:
                self._date_back(incident)
        if self._repairs:
            self._conditions.failed.clear()

    def _date_back(self, incident: Incident) -> None:
        """A recovery begins with the fault or the death; a pause or a stall before that is not part of it."""
        at = incident.began if self._begun_by & set(incident.faults) else self.recoveries.began(incident)
        self._begun_by |= set(incident.faults)
        kept = {Kind.PAUSED, Kind.ENDING} | ({Kind.RUNNING} if self._conditions.stalled is not None else set())
        kept |= DOWN - {Kind.FAILED}
        since = min(self._now, round(at * PER_SECOND))
        self._stretch.rename(lambda kind: kind if kind in kept else Kind.RESTARTING, since)

    def _continued(self) -> None:
        """The run continues elsewhere, and every task starts again. Between the allocations, it was recovering."""
        self._conditions.lose_everything()
        self._unspawned = set(self._job.tasks)
        self._repairs = self.recoveries.repairs()
        self._stretch.become(self._before, self._kind())
        for incident in self._repairs:
            self._date_back(incident)

    def _ends(self, event: ev.Event) -> None:
        """The run ends. What came after the last step of a job that is done belongs to its end."""
        done = isinstance(event, ev.Succeeded)
        if not self._conditions.over:

            def rename(kind: Kind) -> Kind:
                if kind is Kind.FAILED or (done and self._seen and kind is Kind.RUNNING):
                    return Kind.ENDING
                if not self._seen and (kind is Kind.STARTING or (done and kind in (Kind.FIRST_STEP, Kind.AGAIN))):
                    return Kind.UNSEEN
                return kind

            self._stretch.rename(rename)
        self._conditions.end(event)
        self._become()


def _kept(incident: Incident) -> int:
    """The last step that was not computed again."""
    return incident.resumed[0] if incident.resumed is not None else (incident.first_report or 1) - 1


def goodput(job: JobSpec, events: Iterable[tuple[float, ev.Event]]) -> Goodput:
    """The split of these events' time, each with its time in seconds."""
    fold = GoodputFold(job)
    for at, event in events:
        fold.take(at, event)
    return fold.report()
