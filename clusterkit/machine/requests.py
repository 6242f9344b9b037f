"""Requests of users to a live run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clusterkit.faults.aim import live_problems_of
from clusterkit.machine.cluster_state import BY_HAND, SIGCONT, SIGSTOP, SIGTERM, ClusterState, TaskRecord
from clusterkit.machine.ending import Ending
from clusterkit.machine.faults import FaultSchedule
from clusterkit.machine.recovery import Recoveries
from clusterkit.text.spelling import listed
from clusterkit.words.actions import Answer, BeginProfile, DumpStacks, EndProfile
from clusterkit.words.errors import BadJob
from clusterkit.words.events import Profiled, Requested, RequestRefused, Verb
from clusterkit.words.grammar import parse_fault
from clusterkit.words.model import Task, TaskState
from clusterkit.words.outcome import RunState


@dataclass(slots=True)
class Requests:
    """Answers every request at once: with the affected tasks, or with the reason for the refusal."""

    state: ClusterState
    ending: Ending
    recoveries: Recoveries
    faults: FaultSchedule
    _profiled: dict[int, tuple[Task, ...]] = field(default_factory=dict)  # servers whose profile is running, by request

    def take(self, event: Requested) -> None:
        """Carry out a request, or refuse it as a whole."""
        unknown = [task for task in event.tasks if task not in self.state.records]
        if unknown:
            self._refuse(event, f"This run has no task {', '.join(map(str, unknown))}.")
            return
        records = [self.state.records[task] for task in event.tasks or self.state.job.tasks]
        match event.verb:
            case Verb.DOWN:
                self._down(event)
            case Verb.RESTART:
                self._restart(event, records)
            case Verb.PAUSE:
                self._pause(event, records)
            case Verb.UNPAUSE:
                held = [record for record in records if record.paused_by]
                if not self._refused(event, held, "paused"):
                    self._continue(event, held)
            case Verb.KILL:
                self._kill(event, records)
            case Verb.STACKS:
                self._stacks(event, records)
            case Verb.PROFILE:
                self._profile(event, records)
            case Verb.FAULT:
                self._fault(event)
            case Verb.HEAL:
                self._answer(event, self.faults.injections.heal_all("somebody asked for it"))

    def _down(self, event: Requested) -> None:
        self.ending.stop(RunState.STOPPED, 128 + SIGTERM, "`clusterkit down` asked for it")
        if event.force:
            self.ending.kill_all()
        self._answer(event, self.state.job.tasks)

    def _restart(self, event: Requested, records: list[TaskRecord]) -> None:
        if self.ending.begun:
            self._refuse(event, "The run is being ended, so nothing is started any more.")
            return
        if gone := [record.task for record in records if record.task in self.state.job.given_up]:
            was, it = ("was", "it") if len(gone) == 1 else ("were", "them")
            self._refuse(event, f"{listed(gone)} {was} given up: the job continues without {it}.")
            return
        if self.state.waiting:  # no task is running
            self.state.waiting = False
            records = [self.state.records[task] for task in self.state.job.tasks]
        self._answer(event, self.recoveries.asked({record.task for record in records}))

    def _pause(self, event: Requested, records: list[TaskRecord]) -> None:
        running = [record for record in records if record.state is TaskState.RUNNING]
        able = [record for record in running if BY_HAND not in record.paused_by]
        if running and not able:
            verb = "is" if len(running) == 1 else "are"
            self._refuse(event, f"{listed([record.task for record in running])} {verb} paused already.")
        elif not self._refused(event, able, "running"):
            for record in able:
                self.state.pause(record, BY_HAND)
            self._answer(event, [record.task for record in able])

    def _continue(self, event: Requested, records: list[TaskRecord]) -> None:
        """Unpause tasks that a user paused.

        A task that is also stopped by a fault continues once the fault is healed.
        """
        for record in records:
            if record.paused_by:
                self.state.unpause(record, BY_HAND)
            else:
                self.state.signal(record, SIGCONT)
        stopped = [record for record in records if record.paused_by]
        if stopped and len(stopped) == len(records):
            self._refuse(event, _stay_stopped(stopped))
            return
        if stopped:
            self.state.warn(_stay_stopped(stopped))
        self._answer(event, [record.task for record in records if not record.paused_by])

    def _kill(self, event: Requested, records: list[TaskRecord]) -> None:
        able = [record for record in records if record.state in (TaskState.RUNNING, TaskState.STOPPING)]
        if self._refused(event, able, "running"):
            return
        if event.signal == SIGCONT:
            self._continue(event, able)
            return
        for record in able:
            if event.signal == SIGSTOP:
                self.state.pause(record, BY_HAND)
            else:
                self.state.signal(record, event.signal)
        self._answer(event, [record.task for record in able])

    def _stacks(self, event: Requested, records: list[TaskRecord]) -> None:
        able = [record for record in records if record.state in (TaskState.RUNNING, TaskState.STOPPING)]
        if self._refused(event, able, "running"):
            return
        tasks = tuple(record.task for record in able)
        self.state.out.append(DumpStacks(f"request {event.request}", tasks))
        self._answer(event, tasks)

    def _profile(self, event: Requested, records: list[TaskRecord]) -> None:
        """Profile tasks. With a server, profile the coordinator, too: its answer ends the profile of the server.

        If the coordinator does not answer, a server's profile ends after the requested time.
        """
        able, job = [record.task for record in records if record.state is TaskState.RUNNING], self.state.job
        if self._refused(event, able, "running"):
            return
        servers = tuple(filter(job.is_server, able))
        own = tuple(task for task in able if task not in servers)
        if servers and job.leader not in own and self.state.records[job.leader].state is TaskState.RUNNING:
            own = (job.leader, *own)
        if servers:
            self._profiled[event.request] = servers
            self.state.out.append(BeginProfile(event.request, servers, None, event.seconds))
        if own:
            self.state.out.append(BeginProfile(event.request, own, event.steps, event.seconds))
        self._answer(event, sorted({*own, *servers}))

    def profiled(self, event: Profiled) -> None:
        """Handle a task's answer. The coordinator's answer ends the profiles of servers."""
        leads = event.task == self.state.job.leader and event.path is not None
        if leads and (servers := self._profiled.pop(event.request, ())):
            self.state.out.append(EndProfile(event.request, servers))

    def _fault(self, event: Requested) -> None:
        try:
            fault = parse_fault(event.fault)
            problems = list(live_problems_of(fault, self.state.job))
        except BadJob as error:
            problems = list(error.problems)
        if not problems and self.ending.begun:
            problems = ["The run is being ended, so nothing is broken any more."]
        if problems:
            self._refuse(event, "\n".join(problems))
            return
        self.faults.arm(fault)
        self._answer(event, ())

    def _refused(self, event: Requested, able: Sequence[object], what: str) -> bool:
        if able:
            return False
        names = ", ".join(map(str, event.tasks)) or "No task"
        verb = "is" if len(event.tasks) <= 1 else "are"
        self._refuse(event, f"{names} {verb} {'not ' if event.tasks else ''}{what} now.")
        return True

    def _refuse(self, event: Requested, problem: str) -> None:
        self.state.record(RequestRefused(event.request, problem))
        self.state.out.append(Answer(event.request, (), problem))

    def _answer(self, event: Requested, tasks: tuple[Task, ...] | list[Task]) -> None:
        self.state.out.append(Answer(event.request, tuple(tasks)))


def _stay_stopped(records: Sequence[TaskRecord]) -> str:
    numbers = sorted({number for record in records for number in record.paused_by})
    stay, faults = "stay" + "s" * (len(records) == 1), "fault" + "s" * (len(numbers) > 1)
    return (
        f"{listed([record.task for record in records])} {stay} stopped by {faults} {listed(numbers)}. "
        f"To end the {faults}, run `clusterkit fault --heal`."
    )
