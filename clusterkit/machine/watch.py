"""Watching: has every task come up, does training go on, did a restarted program resume where it should."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clusterkit.machine.board import Board, TaskRecord
from clusterkit.machine.ending import Ending
from clusterkit.machine.timers import Timer
from clusterkit.rules.stall import stuck_task
from clusterkit.words.actions import DumpStacks, Inspect
from clusterkit.words.events import Checkpointed, Progressed, Resumed, Spawned, Vitals
from clusterkit.words.model import Shape, Task, TaskType
from clusterkit.words.outcome import Asked


@dataclass(slots=True)
class Watch:
    """Follows progress; asks for a look at the tasks only when a deadline has passed."""

    board: Board
    ending: Ending
    startup_overdue: bool = False
    stall_warned: bool = False
    stall_overdue: bool = False
    stall_judged_at: float = 0.0

    def spawned(self, record: TaskRecord, event: Spawned) -> None:
        """The startup deadline of a task that has peers to connect to."""
        record.checkpoint_found = event.checkpoint
        limit = self.board.job.limits.startup
        if limit and self.board.job.shape is not Shape.SINGLE and record.task.type is not TaskType.EVALUATOR:
            self.board.timers.set(Timer.STARTUP, self.board.now + limit, record.task)
        if record.attempt > 1 and record.task.trains:
            self._expect_progress()

    def ready(self, record: TaskRecord) -> None:
        """The task is connected."""
        record.ready = True
        self.board.timers.clear(Timer.STARTUP, record.task)

    def progressed(self, record: TaskRecord, event: Progressed) -> None:
        """A step was reported."""
        self.ready(record)
        if record.first_step is None:
            record.first_step = event.step
            if record.resumed_step is None:
                self._check_resumption(record, event.step)
        record.last_step = event.step
        if record.task.type is TaskType.EVALUATOR:  # it goes on while training stands still
            self.ending.evaluator_reported(record)
            return
        self.board.progress_at = self.board.now
        self.stall_overdue = False
        self._expect_progress()

    def checkpointed(self, record: TaskRecord, event: Checkpointed) -> None:
        """A checkpoint is complete; it is the newest, also where a recomputed step is lower than an older one's."""
        self.ready(record)
        self.board.newest_checkpoint = (event.step, event.path)

    def resumed(self, record: TaskRecord, event: Resumed) -> None:
        """The program said from which step it goes on."""
        self.ready(record)
        record.resumed_step, record.resumed_from = event.step, event.path
        self._check_resumption(record, event.step)
        if event.path is not None and self.board.newest_checkpoint is None:
            self.board.newest_checkpoint = (event.step, event.path)

    def startup_due(self) -> None:
        """A task's startup deadline has come; look whether its server is there all the same."""
        self.startup_overdue = True
        self.board.out.append(Inspect())

    def stall_due(self) -> None:
        """See how long training has been quiet."""
        since, now, limits = self._quiet_since(), self.board.now, self.board.job.limits
        if since is None or self.ending.begun:
            return
        idle = now - since
        if limits.stall and now >= since + limits.stall:
            self.stall_overdue = True
            self.board.out.append(Inspect())
        elif limits.stall_warning and now >= since + limits.stall_warning and not self.stall_warned:
            self.stall_warned = True
            self.board.out.append(DumpStacks(f"no progress for {idle:.0f} s"))
            self.board.warn(
                f"No task has reported progress for {idle:.0f} s. The stacks of every task are in the run's "
                f"stacks directory. --stall-timeout ends the stuck task after a time that you choose."
            )
        self._arm_stall()

    def inspected(self, vitals: Mapping[Task, Vitals]) -> None:
        """The answer to a look."""
        for task, seen in vitals.items():
            if seen.listening and (record := self.board.records.get(task)):
                self.ready(record)
        if self.startup_overdue:
            self.startup_overdue = False
            self._judge_startup(vitals)
        if self.stall_overdue:
            self.stall_overdue = False
            self._end_stuck(vitals)

    def _training(self) -> list[TaskRecord]:
        return [self.board.records[task] for task in self.board.job.training]

    def _quiet_since(self) -> float | None:
        """Since when training should have gone on: a recovery is no stall, and a restarted task gets its time anew."""
        if self.board.progress_at is None:
            return None
        training = self._training()
        if not all(record.alive or (record.exit is not None and record.exit.ok) for record in training):
            return self.board.now
        return max(self.board.progress_at, self.stall_judged_at, *(record.started for record in training))

    def _expect_progress(self) -> None:
        """Training goes on. A deadline that is set can only be too early: it is moved when it comes, not each time."""
        if self.stall_warned or not self.board.timers.is_set(Timer.STALL):
            self.stall_warned = False
            self._arm_stall()

    def _arm_stall(self) -> None:
        limits, since = self.board.job.limits, self._quiet_since()
        waits = [w for w in (limits.stall_warning if not self.stall_warned else 0, limits.stall) if w]
        if since is not None and waits:
            ahead = [since + wait for wait in waits if since + wait > self.board.now]
            if ahead:
                self.board.timers.set(Timer.STALL, min(ahead))

    def _judge_startup(self, vitals: Mapping[Task, Vitals]) -> None:
        limit = self.board.job.limits.startup
        late = [
            record.task
            for record in self.board.alive()
            if record.task in vitals and not record.ready and self.board.now >= record.started + limit
        ]
        if not late or self.ending.begun:
            return
        names = ", ".join(map(str, late))
        self.board.out.append(DumpStacks(f"not connected after {limit:g} s: {names}"))
        self.ending.fail(
            f"{names} opened no port and reported no progress within {limit:g} s of the start. The stacks of every "
            f"task are in the run's stacks directory. --startup-timeout gives more time, 0 any amount"
        )

    def _end_stuck(self, vitals: Mapping[Task, Vitals]) -> None:
        self.stall_judged_at = self.board.now
        self._arm_stall()
        alive = {r.task: r.last_step for r in self.board.alive() if r.task.type is not TaskType.EVALUATOR}
        stuck = stuck_task(self.board.job, alive, vitals)
        if stuck is None or self.ending.begun:
            return
        (task, wrong), limit = stuck, self.board.job.limits.stall
        self.board.out.append(DumpStacks(f"no progress for {limit:g} s"))
        self.board.warn(f"No task has reported progress for {limit:g} s; {task} {wrong}. It is killed.", task)
        self.board.end(self.board.records[task], Asked.STALL, 0.0)

    def _check_resumption(self, record: TaskRecord, step: int) -> None:
        """Warn where a checkpoint was there and the program went on from before it."""
        if record.task.type is TaskType.EVALUATOR or (record.attempt == 1 and not self.board.job.resume):
            return
        known, found = self.board.newest_checkpoint, record.checkpoint_found
        if known is not None and step < known[0]:
            there = f"{known[1]} (step {known[0]})"
        elif known is None and found is not None and step <= 1:
            there = found
        else:
            return
        where = "started again at step 0" if step <= 1 else f"went on from step {step}"
        self.board.warn(
            f"{record.task} {where} although the checkpoint {there} was there. "
            f"The program does not restore it, or could not read it; steps are lost.",
            record.task,
        )
