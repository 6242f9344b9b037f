"""The recovery report, as a fold over the events of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from clusterkit.ledger.incident import Ended, FaultIncident, Incident
from clusterkit.machine.blame import Blame
from clusterkit.machine.restart import restart_scope
from clusterkit.words import events as ev
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task
from clusterkit.words.outcome import Asked, Failure
from clusterkit.words.recovery import Death, InjectedFault, RecoveryReport, Return
from clusterkit.words.states import TaskState


class RecoveryFold:
    """Takes each event of a run with its time in seconds, and reports at any time what is known so far."""

    def __init__(self, job: JobSpec) -> None:
        self._job = job
        self._began: float | None = None
        self._attempts: dict[Task, int] = {}  # the newest one of each task
        self._states: dict[Task, TaskState] = {}
        self._done: set[tuple[Task, int]] = set()  # attempts that exited with code 0
        self._explaining: dict[tuple[Task, int], int | None] = {}  # the fault that explains each attempt's failure
        self._failures: dict[tuple[Task, int], float] = {}  # when each was detected
        self._reached: dict[Task, int] = {}  # the last step of each task's present attempt
        self._incidents: list[Incident] = []
        self._open: list[Incident] = []  # those of them that a later event can change
        self._incident_of: dict[tuple[Task, int], Incident] = {}  # by the attempts that died
        self._trainers_of: dict[frozenset[Task], frozenset[Task]] = {}  # the training tasks of each restart scope
        self._fault_incidents: dict[int, FaultIncident] = {}
        self._at = 0.0  # when the last event was
        self._stalled: float | None = None  # when the present stall was warned of
        self._begun: set[int] = set()  # faults with which a recovery in `ended` began
        self.ended: list[Ended] = []  # each once, as it was then: only added to

    def take(self, at: float, event: ev.Event) -> None:
        """Take in an event."""
        self._began = at if self._began is None else self._began
        now = at - self._began
        match event:
            case ev.Progressed(task, attempt, step):
                self._progressed(now, task, attempt, step)
            case ev.Ready(task, attempt) | ev.Checkpointed(task, attempt):
                self._mark_up(now, task, attempt)
            case ev.Resumed(task, attempt, step, path):
                self._resumed(now, task, attempt, step, path)
            case ev.Changed(task, attempt, state):
                self._attempts[task], self._states[task] = max(attempt, self._attempts.get(task, 0)), state
            case ev.Spawned(task, attempt):
                self._starts(now, task, attempt)
            case ev.Exited(task, attempt, exit_) if exit_.ok:
                self._done.add((task, attempt))
            case ev.AttemptEnded():
                self._note_end(event)
            case ev.Failed(failure):
                self._failed(now, failure)
            case ev.RestartPlanned():
                self._planned(now, event)
            case ev.Shrunk():
                self._shrunk(event)
            case ev.Continued(allocation):
                self._continued(now, allocation)
            case ev.Finished(result) if result.cause is not None:
                self._merge(Blame(result.cause, result.same, result.collateral), now)
            case ev.Stalled():
                self._warned_of_stall(now)
            case _:
                self._of_faults(now, event)
        self._at = now

    @property
    def is_open(self) -> bool:
        """Whether a step that is reported now can change the report."""
        faults = self._fault_incidents.values()
        return bool(self._still_open()) or not all(fault.course.settled for fault in faults)

    def report(self) -> RecoveryReport:
        """What is known so far. The first recovery that a fault explains begins with its injection."""
        recoveries, begun = [], set[int]()
        for incident in self._incidents:
            injected = self._injected(number for number in incident.faults if number not in begun)
            begun |= set(incident.faults)
            recoveries.append(incident.recovery(min([incident.began, *injected])))
        return RecoveryReport(tuple(recoveries), tuple(map(self._fault, self._fault_incidents.values())))

    def repairs(self) -> list[Incident]:
        """The restarts of training tasks after which there was no new step yet."""
        return [one for one in self._still_open() if one.trainers and not one.course.settled]

    def mending(self) -> list[Incident]:
        """The restarts that are decided, and have not ended yet."""
        return [one for one in self._still_open() if one.planned is not None and one.ended is None]

    def began(self, incident: Incident) -> float:
        """When an incident began: with the injection of a fault that explains it, or by itself."""
        return min([incident.began, *self._injected(incident.faults)])

    def _injected(self, numbers: Iterable[int]) -> list[float]:
        """When faults were injected; a damaged journal may name others."""
        return [self._fault_incidents[number].at for number in numbers if number in self._fault_incidents]

    def _fault(self, fault: FaultIncident) -> InjectedFault:
        explained = [key for key in self._failures if self._explaining.get(key) == fault.event.number]
        return fault.report([(key[0], self._failures[key]) for key in explained])

    def _still_open(self) -> list[Incident]:
        over = [incident for incident in self._open if incident.over]
        if over:
            self._open = [incident for incident in self._open if not incident.over]
            self.ended += [ended for incident in over if (ended := self._ended(incident)) is not None]
        return self._open

    def _ended(self, incident: Incident) -> Ended | None:
        injected = self._injected(number for number in incident.faults if number not in self._begun)
        self._begun |= set(incident.faults)
        recovery = incident.recovery(min([incident.began, *injected]))
        return None if recovery.seconds is None else Ended(recovery.seconds, recovery.lost or 0)

    def _trains(self, task: Task) -> bool:
        return task.trains and not self._job.is_server(task)

    def _lives(self, task: Task) -> bool:
        """Whether the task runs and is not being ended, or has finished successfully."""
        done = (task, self._attempts.get(task, 0)) in self._done
        return done or self._states.get(task) is TaskState.RUNNING

    def _all_live(self, incident: Incident) -> bool:
        """Whether each task lives that a new step needs. The one that was missed last is looked at first."""
        if incident.missed is None or self._lives(incident.missed):
            incident.missed = next((task for task in incident.needs if not self._lives(task)), None)
        return incident.missed is None

    def _halted(self, deaths: list[Death]) -> frozenset[Task]:
        """The training tasks that have to restart after these deaths before there is a new step."""
        trainers = [self._trainers(scope) for scope in {restart_scope(self._job, death.task) for death in deaths}]
        return trainers[0] if len(trainers) == 1 else frozenset().union(*trainers)

    def _trainers(self, scope: frozenset[Task]) -> frozenset[Task]:
        if scope not in self._trainers_of:  # a gang's is as large as the job, and each of its tasks may fail
            self._trainers_of[scope] = frozenset(filter(self._trains, scope))
        return self._trainers_of[scope]

    def _starts(self, now: float, task: Task, attempt: int) -> None:
        self._states[task] = TaskState.RUNNING
        self._attempts[task] = max(attempt, self._attempts.get(task, 0))
        reached = self._reached.pop(task, None)
        for incident in self._still_open():
            incident.spawned(task, attempt, now, reached)

    def _mark_up(self, now: float, task: Task, attempt: int) -> None:
        for incident in self._still_open():
            if incident.concerns(task, attempt):
                incident.mark_up(task, now)

    def _resumed(self, now: float, task: Task, attempt: int, step: int, path: str | None) -> None:
        if attempt < self._attempts.get(task, 0):
            return
        self._reached[task] = step
        self._mark_up(now, task, attempt)
        for incident in self._still_open():
            if incident.concerns(task, attempt):
                incident.resumes(task, attempt, step, path)

    def _progressed(self, now: float, task: Task, attempt: int, step: int) -> None:
        if attempt < self._attempts.get(task, 0):
            return
        self._reached[task] = step
        self._mark_up(now, task, attempt)
        if not self._trains(task):
            return
        self._stalled = None
        if not self._lives(task):
            return
        for incident in self._still_open():
            if not incident.course.settled and self._all_live(incident):
                incident.progressed(now, task, attempt, step)
        for number, fault in self._fault_incidents.items():
            if not fault.course.settled:
                fault.course.progressed(now, step, fault.healed is None)
                if fault.course.first_step is not None and number not in self._explaining.values():
                    self.ended.append(Ended(now - fault.at, 0))

    def _failed(self, now: float, failure: Failure) -> None:
        death = self._death(failure)
        stalled = self._stalled if failure.exit.asked is Asked.STALL else None
        detected = now if stalled is None else stalled
        self._add(Incident([death], detected, trainers=self._halted([death])), len(self._incidents))
        self._failures[failure.task, failure.attempt] = detected

    def _death(self, failure: Failure) -> Death:
        fault = self._explaining.get((failure.task, failure.attempt))
        return Death(failure.task, failure.attempt, failure.at - (self._began or 0.0), failure.exit, fault)

    def _note_end(self, ended: ev.AttemptEnded) -> None:
        """Note which fault explains the attempt's failure; one that could not be injected does not any more."""
        key = ended.task, ended.attempt
        before, self._explaining[key] = self._explaining.get(key), ended.fault
        if before != ended.fault and (incident := self._incident_of.get(key)) is not None:
            incident.deaths = [
                replace(d, fault=ended.fault) if (d.task, d.attempt) == key else d for d in incident.deaths
            ]

    def _planned(self, now: float, event: ev.RestartPlanned) -> None:
        blamed = None if event.cause is None else Blame(event.cause, event.same, event.collateral)
        incident = self._merge(blamed, now, frozenset(event.tasks))
        incident.asked, incident.files, incident.host = event.cause is None, event.files, event.host
        returns = [Return(task, self._attempts.get(task, 0) + 1) for task in event.tasks]
        incident.plan(now, returns, self._trainers(frozenset(event.tasks)))
        self._open = [*(one for one in self._open if one is not incident), incident]

    def _shrunk(self, event: ev.Shrunk) -> None:
        """Nobody waits any more for those that were given up."""
        self._job = replace(self._job, given_up=(*self._job.given_up, *event.tasks))
        if (incident := self._incident_of.get((event.cause.task, event.cause.attempt))) is not None:
            incident.shrunk = event

    def _continued(self, now: float, allocation: int) -> None:
        """Every task starts again, and with that repairs what failed last; since then nothing was trained."""
        repaired = {incident for incident in self._incidents if not incident.over and incident.planned is None}
        deaths = [death for incident in self._incidents if incident in repaired for death in incident.deaths]
        self._incidents = [incident for incident in self._incidents if incident not in repaired]
        detected = min((one.detected for one in repaired if one.detected is not None), default=None)
        self._job = replace(self._job, given_up=())
        tasks, self._stalled = self._job.tasks, None
        self._states = dict.fromkeys(self._states, TaskState.DOWN)
        incident = Incident(deaths, detected, allocation=allocation, left=self._at)
        returns = [Return(task, self._attempts.get(task, 0) + 1) for task in tasks]
        incident.plan(now, returns, self._trainers(frozenset(tasks)))
        self._add(incident, len(self._incidents))
        self._open = [*(one for one in self._open if one is not incident and one not in repaired), incident]

    def _merge(self, blamed: Blame | None, now: float, tasks: frozenset[Task] = frozenset()) -> Incident:
        """Merge the incidents of these failures, cause first; or those that a requested restart of `tasks` repairs."""
        failures = [] if blamed is None else [blamed.cause, *blamed.same, *blamed.collateral]
        asked = tasks if blamed is None else None
        keys = {(failure.task, failure.attempt) for failure in failures}
        old = [i for i in self._incidents if keys & {(d.task, d.attempt) for d in i.deaths} or _repairs(i, asked)]
        known = {(death.task, death.attempt): death for incident in old for death in incident.deaths}
        deaths = [known.get((f.task, f.attempt)) or self._death(f) for f in failures]
        deaths += [death for key, death in known.items() if key not in keys]
        detected = min((i.detected for i in old if i.detected is not None), default=now if failures else None)
        merged = Incident(deaths, detected, trainers=self._halted(deaths))
        known_same = [incident.same for incident in old]
        same = frozenset().union(*known_same) if blamed is None else frozenset(f.task for f in blamed.same)
        merged.same = same or merged.same  # one empty set for all of them
        merged.course = old[0].course if old else merged.course
        merged.shrunk = next((incident.shrunk for incident in old if incident.shrunk is not None), None)
        place = self._incidents.index(old[0]) if old else len(self._incidents)
        gone = set(old)
        self._incidents = [incident for incident in self._incidents if incident not in gone]
        self._open = [incident for incident in self._open if incident not in gone]
        self._add(merged, place)
        return merged

    def _add(self, incident: Incident, place: int) -> None:
        self._incidents.insert(place, incident)
        if not incident.trainers:  # others wait for what is decided of them
            self._open.append(incident)
        self._incident_of |= {(death.task, death.attempt): incident for death in incident.deaths}

    def _of_faults(self, now: float, event: ev.Event) -> None:
        match event:
            case ev.FaultInjected(number):
                self._fault_incidents[number] = FaultIncident(event, now)
            case ev.FaultTook(number, detail, done) if number in self._fault_incidents:
                self._fault_incidents[number].took(detail, done)
            case ev.FaultHealed(number, _, _, _, why) if number in self._fault_incidents:
                self._fault_incidents[number].healed, self._fault_incidents[number].why = now, why

    def _warned_of_stall(self, now: float) -> None:
        self._stalled = now if self._stalled is None else self._stalled
        for fault in self._fault_incidents.values():
            if fault.open and fault.stalled is None:
                fault.stalled = now


def _repairs(incident: Incident, asked: frozenset[Task] | None) -> bool:
    """Whether a requested restart of these tasks repairs the incident: nothing of it has restarted yet."""
    if asked is None or any(one.spawned is not None for one in incident.returns.values()):
        return False
    concerned = {*incident.returns, *(death.task for death in incident.deaths)}
    return bool(concerned & asked)


def recovery_report(job: JobSpec, events: Iterable[tuple[float, ev.Event]]) -> RecoveryReport:
    """The report on these events, each with its time in seconds."""
    fold = RecoveryFold(job)
    for at, event in events:
        fold.take(at, event)
    return fold.report()
