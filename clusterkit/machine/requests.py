"""Handles users' requests to a live run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clusterkit.faults.aim import live_problems_of
from clusterkit.machine.cluster_state import (
    BY_TERMINAL,
    ON_REQUEST,
    SIGCONT,
    SIGSTOP,
    SIGTERM,
    ClusterState,
    TaskRecord,
)
from clusterkit.machine.ending import Ending
from clusterkit.machine.fault_schedule import FaultSchedule
from clusterkit.machine.recovery import Recoveries
from clusterkit.text.spelling import listed
from clusterkit.words.actions import Answer, BeginProfile, DumpStacks, EndProfile
from clusterkit.words.errors import BadJob
from clusterkit.words.events import Profiled, Requested, RequestRefused, Verb
from clusterkit.words.model import Task, TaskState
from clusterkit.words.outcome import RunState


@dataclass(slots=True)
class Requests:
    """Answers every request at once: with the affected tasks, or with the reason for the refusal."""

    state: ClusterState
    ending: Ending
    recoveries: Recoveries
    faults: FaultSchedule
    _profiles: dict[int, tuple[Task, ...]] = field(default_factory=dict)  # by request id: the servers being profiled

    def handle(self, event: Requested) -> None:
        """Carry out a request, or refuse it as a whole."""
        unknown = [task for task in event.tasks if task not in self.state.records]
        if unknown:
            self._refuse(event, f"This run has no task {', '.join(map(str, unknown))}.")
            return
        records = [self.state.records[task] for task in event.tasks or self.state.job.tasks]
        match event.verb:
            case Verb.PAUSE | Verb.UNPAUSE if event.terminal:
                self._follow_terminal(event)
            case Verb.DOWN:
                self._stop_run(event)
            case Verb.RESTART:
                self._restart(event, records)
            case Verb.PAUSE:
                self._pause(event, records)
            case Verb.UNPAUSE:
                paused = [record for record in records if record.paused_by]
                if not self._refused(event, paused, "paused"):
                    self._unpause(event, paused)
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

    def _stop_run(self, event: Requested) -> None:
        self.ending.stop(RunState.STOPPED, 128 + SIGTERM, "`clusterkit down` asked for it")
        if event.force:
            self.ending.kill_all()
        self._answer(event, self.state.job.tasks)

    def _restart(self, event: Requested, records: list[TaskRecord]) -> None:
        if self.ending.begun:
            self._refuse(event, "The run is being ended, so nothing is started any more.")
            return
        if given_up := [record.task for record in records if record.task in self.state.job.given_up]:
            was, it = ("was", "it") if len(given_up) == 1 else ("were", "them")
            self._refuse(event, f"{listed(given_up)} {was} given up: the job continues without {it}.")
            return
        if self.state.awaits_change:  # no task is running
            self.state.awaits_change = False
            records = [self.state.records[task] for task in self.state.job.tasks]
        self._answer(event, self.recoveries.request_restart({record.task for record in records}))

    def _pause(self, event: Requested, records: list[TaskRecord]) -> None:
        running = [record for record in records if record.state is TaskState.RUNNING]
        targets = [record for record in running if ON_REQUEST not in record.paused_by]
        if running and not targets:
            verb = "is" if len(running) == 1 else "are"
            self._refuse(event, f"{listed([record.task for record in running])} {verb} paused already.")
        elif not self._refused(event, targets, "running"):
            for record in targets:
                self.state.pause(record, ON_REQUEST)
            self._answer(event, [record.task for record in targets])

    def _follow_terminal(self, event: Requested) -> None:
        """Pause all tasks while the terminal has stopped the run's command; tasks that start meanwhile, too."""
        if self.ending.begun:
            self._refuse(event, "The run is being ended, so it is not paused.")
            return
        self.state.terminal_stopped = event.verb is Verb.PAUSE
        records = [record for record in self.state.alive() if record.state is TaskState.RUNNING]
        for record in records:
            if self.state.terminal_stopped:
                self.state.pause(record, BY_TERMINAL)
            else:
                self.state.unpause(record, BY_TERMINAL)
        self._answer(event, [record.task for record in records])

    def _unpause(self, event: Requested, records: list[TaskRecord]) -> None:
        """Unpause tasks that a user paused.

        A task that is also stopped by a fault continues once the fault is healed.
        """
        for record in records:
            if record.paused_by:
                self.state.unpause(record, ON_REQUEST)
            else:
                self.state.signal(record, SIGCONT)
        stopped = [record for record in records if record.paused_by]
        if stopped and len(stopped) == len(records):
            self._refuse(event, _still_stopped(stopped))
            return
        if stopped:
            self.state.warn(_still_stopped(stopped))
        self._answer(event, [record.task for record in records if not record.paused_by])

    def _kill(self, event: Requested, records: list[TaskRecord]) -> None:
        targets = [record for record in records if record.state in (TaskState.RUNNING, TaskState.STOPPING)]
        if self._refused(event, targets, "running"):
            return
        if event.signal == SIGCONT:
            self._unpause(event, targets)
            return
        for record in targets:
            if event.signal == SIGSTOP:
                self.state.pause(record, ON_REQUEST)
            else:
                self.state.signal(record, event.signal)
        self._answer(event, [record.task for record in targets])

    def _stacks(self, event: Requested, records: list[TaskRecord]) -> None:
        targets = [record for record in records if record.state in (TaskState.RUNNING, TaskState.STOPPING)]
        if self._refused(event, targets, "running"):
            return
        tasks = tuple(record.task for record in targets)
        self.state.actions.append(DumpStacks(f"request {event.request}", tasks))
        self._answer(event, tasks)

    def _profile(self, event: Requested, records: list[TaskRecord]) -> None:
        """Profile tasks. For a server, also profile the coordinator, whose answer ends the server's profile.

        If the coordinator does not answer, a server's profile ends after the requested time.
        """
        targets, job = [record.task for record in records if record.state is TaskState.RUNNING], self.state.job
        if self._refused(event, targets, "running"):
            return
        servers = tuple(filter(job.is_server, targets))
        others = tuple(task for task in targets if task not in servers)
        if servers and job.leader not in others and self.state.records[job.leader].state is TaskState.RUNNING:
            others = (job.leader, *others)
        if servers:
            self._profiles[event.request] = servers
            self.state.actions.append(BeginProfile(event.request, servers, None, event.seconds))
        if others:
            self.state.actions.append(BeginProfile(event.request, others, event.steps, event.seconds))
        self._answer(event, sorted({*others, *servers}))

    def profiled(self, event: Profiled) -> None:
        """Handle a task's answer. The coordinator's answer ends the profiles of servers."""
        is_leaders = event.task == self.state.job.leader and event.path is not None
        if is_leaders and (servers := self._profiles.pop(event.request, ())):
            self.state.actions.append(EndProfile(event.request, servers))

    def _fault(self, event: Requested) -> None:
        from clusterkit.words.grammar import parse_fault  # imported here, since few runs have such a request

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

    def _refused(self, event: Requested, targets: Sequence[object], what: str) -> bool:
        if targets:
            return False
        names = ", ".join(map(str, event.tasks)) or "No task"
        verb = "is" if len(event.tasks) <= 1 else "are"
        self._refuse(event, f"{names} {verb} {'not ' if event.tasks else ''}{what} now.")
        return True

    def _refuse(self, event: Requested, problem: str) -> None:
        self.state.record(RequestRefused(event.request, problem))
        self.state.actions.append(Answer(event.request, (), problem))

    def _answer(self, event: Requested, tasks: tuple[Task, ...] | list[Task]) -> None:
        self.state.actions.append(Answer(event.request, tuple(tasks)))


def _still_stopped(records: Sequence[TaskRecord]) -> str:
    if any(BY_TERMINAL in record.paused_by for record in records):
        return "The terminal of this run has stopped it (Ctrl-Z). Type `fg` there to continue."
    numbers = sorted({number for record in records for number in record.paused_by})
    stay, faults = "stay" + "s" * (len(records) == 1), "fault" + "s" * (len(numbers) > 1)
    return (
        f"{listed([record.task for record in records])} {stay} stopped by {faults} {listed(numbers)}. "
        f"To end the {faults}, run `clusterkit fault --heal`."
    )
