"""The incidents of a run: failures and requested restarts, the decisions about them, and how training recovered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from clusterkit.ledger.attempts import Attempts, Key
from clusterkit.ledger.incident import Faults, Incident, RecoveryTime
from clusterkit.ledger.status import RunStatus
from clusterkit.machine.restart import restart_scope
from clusterkit.words import events as ev
from clusterkit.words.account import Death, Recovery, RecoveryReport, Return
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task, TaskState
from clusterkit.words.outcome import Asked, Blame, Failure, RunResult


class Incidents:
    """Every incident of a run. Times are in seconds since the run began."""

    def __init__(self, job: JobSpec, run: RunStatus, attempts: Attempts, faults: Faults) -> None:
        self._job, self._run, self._attempts, self._faults = job, run, attempts, faults
        self._detected_at: dict[Key, float] = {}  # when each failure was detected
        self._all: list[Incident] = []
        self._open: list[Incident] = []  # incidents that a later event can change
        self._incident_of: dict[Key, Incident] = {}  # incidents by the attempts that died
        self._trainers_of: dict[frozenset[Task], frozenset[Task]] = {}  # the training tasks of each restart scope
        self._stalled: float | None = None  # when the current stall was first reported
        self._explained_faults: set[int] = set()  # faults whose injection began a recovery in `ended_recoveries`
        self.ended_recoveries: list[RecoveryTime] = []  # each recovery once, as known when it ended; append-only

    @property
    def is_open(self) -> bool:
        """Return whether a step that is reported now can change the report."""
        return bool(self._open_incidents()) or bool(self._faults.unsettled)

    def report(self) -> RecoveryReport:
        explained = set[int]()
        recoveries = tuple(self._recovery(incident, explained) for incident in self._all)
        failed = defaultdict[int | None, list[tuple[Task, float]]](list)
        for key, at in self._detected_at.items():
            failed[self._attempts.fault_of.get(key)].append((key[0], at))
        faults = self._faults.by_number.items()
        return RecoveryReport(recoveries, tuple(fault.report(failed[number]) for number, fault in faults))

    def open_training_restarts(self) -> list[Incident]:
        """Return the restarts of training tasks after which training has completed no new step yet."""
        return [one for one in self._open_incidents() if one.trainers and not one.course.settled]

    def open_restarts(self) -> list[Incident]:
        """Return the decided restarts that have not ended yet."""
        return [one for one in self._open_incidents() if one.planned is not None and one.ended is None]

    def start_of(self, incident: Incident) -> float:
        """Return when an incident began; if a fault explains the incident, when the fault was injected."""
        return min([incident.began, *self._faults.times(incident.faults)])

    def halts_training(self, task: Task) -> bool:
        """Return whether a failure of this task halts training until training tasks have restarted."""
        return bool(self._trainers(restart_scope(self._job, task)))

    def spawned(self, now: float, task: Task, attempt: int, reached: int | None) -> None:
        """Note a new process. `reached` is the step that the previous attempt had reached."""
        for incident in self._open_incidents():
            incident.spawned(task, attempt, now, reached)

    def mark_up(self, now: float, task: Task, attempt: int) -> None:
        """Note that the attempt is up, because it has sent a report."""
        for incident in self._open_incidents():
            if incident.has_attempt(task, attempt):
                incident.mark_up(task, now)

    def resumed(self, now: float, event: ev.Resumed) -> None:
        self.mark_up(now, event.task, event.attempt)
        for incident in self._open_incidents():
            if incident.has_attempt(event.task, event.attempt):
                incident.resumed_at(event.task, event.attempt, event.step, event.path)

    def progressed(self, now: float, task: Task, attempt: int, step: int) -> None:
        """Note a step that a task's newest attempt reported."""
        self.mark_up(now, task, attempt)
        if not self._attempts.trains(task):
            return
        self._stalled = None
        if not (self._open or self._faults.unsettled) or not self._is_alive(task):
            return
        for incident in self._open_incidents():
            if not incident.course.settled and self._all_alive(incident):
                incident.progressed(now, task, attempt, step)
        for number, fault in list(self._faults.unsettled.items()):
            fault.course.progressed(now, step, fault.healed is None)
            if fault.course.settled:
                del self._faults.unsettled[number]
            if fault.course.first_step is not None and number not in self._attempts.fault_of.values():
                self.ended_recoveries.append(RecoveryTime(now - fault.began, 0))

    def failed(self, now: float, failure: Failure) -> None:
        death = self._death(failure)
        stalled = self._stalled if failure.exit.asked is Asked.STALL else None
        detected = now if stalled is None else stalled
        self._add(Incident([death], detected, trainers=self._trainers_halted([death])), len(self._all))
        self._detected_at[failure.task, failure.attempt] = detected

    def explain(self, key: Key, fault: int | None) -> None:
        """Set the fault that explains an attempt's failure; None if the presumed fault was not injected after all."""
        if (incident := self._incident_of.get(key)) is not None:
            incident.deaths = [replace(d, fault=fault) if (d.task, d.attempt) == key else d for d in incident.deaths]

    def stall(self, now: float) -> None:
        self._stalled = now if self._stalled is None else self._stalled

    def planned(self, now: float, event: ev.RestartPlanned) -> None:
        blamed = None if event.cause is None else Blame(event.cause, event.same, event.collateral)
        incident = self._merge(blamed, now, frozenset(event.tasks))
        incident.requested, incident.files, incident.host = event.cause is None, event.files, event.host
        self._plan(now, incident, event.tasks)
        self._open = [*(one for one in self._open if one is not incident), incident]

    def shrunk(self, event: ev.Shrunk) -> None:
        """Note that the job continues without the workers that were given up."""
        self._job = replace(self._job, given_up=(*self._job.given_up, *event.tasks))
        if (incident := self._incident_of.get((event.cause.task, event.cause.attempt))) is not None:
            incident.shrinking = event

    def continued(self, now: float, before: float, allocation: int) -> None:
        """Note that all tasks restart in a new allocation, which repairs failures. The old one ended at `before`."""
        repaired = {incident for incident in self._all if not incident.is_final and incident.planned is None}
        deaths = [death for incident in self._all if incident in repaired for death in incident.deaths]
        self._all = [incident for incident in self._all if incident not in repaired]
        detected = min((one.detected for one in repaired if one.detected is not None), default=None)
        self._job = replace(self._job, given_up=())
        self._stalled = None
        incident = Incident(deaths, detected, allocation=allocation, allocation_ended=before)
        self._plan(now, incident, self._job.tasks)
        self._add(incident, len(self._all))
        self._open = [*(one for one in self._open if one is not incident and one not in repaired), incident]

    def finish(self, now: float, result: RunResult) -> None:
        """Merge the failures that made the run fail into one incident."""
        if result.cause is not None:
            self._merge(Blame(result.cause, result.same, result.collateral), now)

    def _plan(self, now: float, incident: Incident, tasks: Sequence[Task]) -> None:
        known = self._run.tasks
        returns = [Return(task, (known[task].attempt if task in known else 0) + 1) for task in tasks]
        incident.plan(now, returns, self._trainers(frozenset(tasks)))

    def _open_incidents(self) -> list[Incident]:
        if over := [incident for incident in self._open if incident.is_final]:
            self._open = [incident for incident in self._open if not incident.is_final]
            told = [self._recovery(incident, self._explained_faults) for incident in over]
            self.ended_recoveries += [
                RecoveryTime(one.seconds, one.lost or 0) for one in told if one.seconds is not None
            ]
        return self._open

    def _recovery(self, incident: Incident, explained: set[int]) -> Recovery:
        """Return the recovery. If a fault explains several recoveries, only the first begins at the injection."""
        injected = self._faults.times([number for number in incident.faults if number not in explained])
        explained |= set(incident.faults)
        return incident.report(min([incident.began, *injected]))

    def _is_alive(self, task: Task) -> bool:
        """Return whether the task is running and is not being ended, or has finished successfully."""
        if (of := self._run.tasks.get(task)) is None:
            return False
        newest = self._attempts.get(task, of.attempt)
        done = newest is not None and newest.exit is not None and newest.exit.ok
        return done or of.state is TaskState.RUNNING

    def _all_alive(self, incident: Incident) -> bool:
        """Return whether all tasks that a new step needs are alive. The task that was missing last is checked first."""
        if incident.last_missing is None or self._is_alive(incident.last_missing):
            incident.last_missing = next((task for task in incident.needed_tasks if not self._is_alive(task)), None)
        return incident.last_missing is None

    def _trainers_halted(self, deaths: list[Death]) -> frozenset[Task]:
        """Return the training tasks that have to restart after these deaths before training completes a new step."""
        trainers = [self._trainers(scope) for scope in {restart_scope(self._job, death.task) for death in deaths}]
        return trainers[0] if len(trainers) == 1 else frozenset().union(*trainers)

    def _trainers(self, scope: frozenset[Task]) -> frozenset[Task]:
        if scope not in self._trainers_of:  # cached, since a gang's scope is large and any of its tasks may fail
            self._trainers_of[scope] = frozenset(filter(self._attempts.trains, scope))
        return self._trainers_of[scope]

    def _death(self, failure: Failure) -> Death:
        fault = self._attempts.fault_of.get((failure.task, failure.attempt))
        at, attempt = failure.at - self._run.clock_start, self._attempts.get(failure.task, failure.attempt)
        requested = attempt is not None and failure.exit.signal in attempt.signals
        return Death(failure.task, failure.attempt, at, failure.exit, fault, failure.exception, requested)

    def _merge(self, blamed: Blame | None, now: float, tasks: frozenset[Task] = frozenset()) -> Incident:
        """Merge the incidents of the blamed failures; if `blamed` is None, those that a restart of `tasks` repairs."""
        failures = [] if blamed is None else [blamed.cause, *blamed.same, *blamed.collateral]
        requested = tasks if blamed is None else None
        keys = {(failure.task, failure.attempt) for failure in failures}
        merging = [i for i in self._all if keys & {(d.task, d.attempt) for d in i.deaths} or _repairs(i, requested)]
        known = {(death.task, death.attempt): death for incident in merging for death in incident.deaths}
        deaths = [known.get((f.task, f.attempt)) or self._death(f) for f in failures]
        deaths += [death for key, death in known.items() if key not in keys]
        detected = min((i.detected for i in merging if i.detected is not None), default=now if failures else None)
        merged = Incident(deaths, detected, trainers=self._trainers_halted(deaths))
        known_same = [incident.same for incident in merging]
        same = frozenset().union(*known_same) if blamed is None else frozenset(f.task for f in blamed.same)
        merged.same = same or merged.same  # all incidents share one empty set
        merged.course = merging[0].course if merging else merged.course
        merged.shrinking = next((incident.shrinking for incident in merging if incident.shrinking is not None), None)
        position = self._all.index(merging[0]) if merging else len(self._all)
        replaced = set(merging)
        self._all = [incident for incident in self._all if incident not in replaced]
        self._open = [incident for incident in self._open if incident not in replaced]
        self._add(merged, position)
        return merged

    def _add(self, incident: Incident, position: int) -> None:
        self._all.insert(position, incident)
        if not incident.trainers:  # other incidents are opened when their restart is decided
            self._open.append(incident)
        self._incident_of |= {(death.task, death.attempt): incident for death in incident.deaths}


def _repairs(incident: Incident, requested: frozenset[Task] | None) -> bool:
    """Return whether a requested restart of these tasks repairs the incident; False if its tasks have restarted."""
    if requested is None or any(one.spawned is not None for one in incident.returns.values()):
        return False
    concerned = {*incident.returns, *(death.task for death in incident.deaths)}
    return bool(concerned & requested)
