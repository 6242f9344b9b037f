"""The ending of a run: success, failure, a signal, a timeout; then teardown until nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from clusterkit.machine.blame import Blame
from clusterkit.machine.cluster_state import ClusterState, TaskRecord
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Finish
from clusterkit.words.events import Crashed, Finished, Stopping, Succeeded
from clusterkit.words.model import TaskType
from clusterkit.words.outcome import CRASHED, PROVED_NOTHING, Asked, NotInjected, RunResult, RunState


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the run ends, decided once."""

    state: RunState
    exit_code: int
    reason: str
    blame: Blame | None = None
    repeated: bool = False


@dataclass(slots=True)
class Ending:
    """Before it has begun it only knows how to begin."""

    state: ClusterState
    verdict: Verdict | None = None
    finished: bool = False
    not_injected: Callable[[], tuple[NotInjected, ...]] = tuple

    @property
    def begun(self) -> bool:
        """Whether the verdict is out; no task is started after that."""
        return self.verdict is not None

    @property
    def succeeded(self) -> bool:
        """Whether the job was done."""
        return self.verdict is not None and self.verdict.state is RunState.SUCCEEDED

    def succeed(self, leader: TaskRecord) -> None:
        """The leader exited 0. Servers end now; other training tasks may finish, the evaluator its last checkpoint."""
        state, limits = self.state, self.state.job.limits
        self.verdict = Verdict(RunState.SUCCEEDED, 0, f"{leader.task} exited with code 0")
        state.record(Succeeded(leader.task))
        state.timers.set(Timer.FINISH, state.now + limits.finish - limits.servers)
        state.timers.set(Timer.EVALUATOR, state.now + limits.evaluator)
        for record in state.alive():
            if state.job.is_server(record.task):
                state.end(record, Asked.SUCCESS, limits.servers)
            elif record.task.type is TaskType.EVALUATOR:
                self.evaluator_reported(record)

    def fail(self, reason: str, blame: Blame | None = None, repeated: bool = False) -> None:
        """The job can't go on. `repeated`: it fails in the same way each time."""
        self._stop(Verdict(RunState.FAILED, 1, reason, blame, repeated), self.state.job.limits.grace)

    def crashed(self, event: Crashed, restarts: int) -> None:
        """clusterkit itself failed: the run is over at once, since nothing that was to answer can be relied on."""
        self.verdict = Verdict(RunState.FAILED, CRASHED, event.sentence)
        self.state.began = self.state.began or self.state.now
        for task in self.state.unsettled:
            self.state.close(self.state.records[task])
        self._finish(self.verdict, restarts)

    def stop(self, state: RunState, exit_code: int, reason: str) -> None:
        """Somebody asks for the end; after success that only hurries what is left."""
        if self.succeeded:
            for record in self.state.alive():
                self.state.end(record, Asked.SUCCESS, self.state.job.limits.grace)
        self._stop(Verdict(state, exit_code, reason), self.state.job.limits.grace)

    def kill_all(self) -> None:
        """No more grace."""
        for record in self.state.alive():
            self.state.end(record, Asked.TEARDOWN, 0.0)

    def leader_is_done(self) -> None:
        """Training tasks that have not finished in most of their time are ended, in what a server gets for that."""
        for record in self.state.alive():
            if record.task.type is not TaskType.EVALUATOR:
                self.state.end(record, Asked.SUCCESS, self.state.job.limits.servers)

    def evaluator_reported(self, record: TaskRecord) -> None:
        """After success the evaluator ends once it has seen the newest checkpoint."""
        newest = self.state.newest_checkpoint
        if self.succeeded and newest and record.last_step is not None and record.last_step >= newest[0]:
            self.evaluator_is_done(record)

    def evaluator_is_done(self, record: TaskRecord) -> None:
        """Its last checkpoint is seen, or its time is over."""
        self.state.end(record, Asked.SUCCESS, self.state.job.limits.grace)

    def settle(self, restarts: int) -> None:
        """Finish when nothing of any task is left."""
        if self.verdict is None or self.finished or self.state.unsettled:
            return
        self._finish(self.verdict, restarts)

    def _finish(self, verdict: Verdict, restarts: int) -> None:
        self.finished = True
        result = self._result(self._doubted(verdict), restarts)
        self.state.record(Finished(result))
        self.state.out.append(Finish(result))

    def _stop(self, verdict: Verdict, grace: float) -> None:
        if self.verdict is not None:
            return
        self.verdict = verdict
        self.state.record(Stopping(verdict.reason))
        for record in self.state.alive():
            self.state.end(record, Asked.TEARDOWN, grace)

    def _doubted(self, verdict: Verdict) -> Verdict:
        """A success beside a fault that never happened proves nothing about that fault."""
        count = len(self.not_injected())
        if not count or verdict.state is not RunState.SUCCEEDED:
            return verdict
        what = "a fault that was" if count == 1 else f"{count} faults that were"
        reason = f"{verdict.reason}, but {what} asked for {'was' if count == 1 else 'were'} never injected"
        return replace(verdict, exit_code=PROVED_NOTHING, reason=reason)

    def _result(self, verdict: Verdict, restarts: int) -> RunResult:
        attempts = [self.state.attempts[key] for key in sorted(self.state.attempts)]
        steps = [attempt.last_step for attempt in attempts if attempt.last_step is not None]
        blame = verdict.blame
        return RunResult(
            state=verdict.state,
            exit_code=verdict.exit_code,
            reason=verdict.reason,
            cause=blame.cause if blame else None,
            collateral=blame.collateral if blame else (),
            attempts=tuple(attempts),
            restarts=restarts,
            last_step=max(steps, default=None),
            duration=self.state.now - self.state.began,
            same=blame.same if blame else (),
            repeated=verdict.repeated,
            not_injected=self.not_injected(),
        )
