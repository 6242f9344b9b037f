"""The ends of attempts and runs: exits, failures, their roles and causes, and the result of a run."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from clusterkit.words.distribution import Undistributed
from clusterkit.words.explanation import Explanation
from clusterkit.words.model import AttemptEvent, Task
from clusterkit.words.verification import Verification

CRASHED = 70  # exit code if clusterkit itself failed; EX_SOFTWARE in sysexits.h
NOT_AS_ASKED = 3  # exit code of `up` if the job succeeded, but with a reservation: see Reservation
SUSPENDED = 75  # exit code of `up` if the run continues in another allocation; EX_TEMPFAIL in sysexits.h
PREEMPTED = 42  # exit code of TensorFlow's PreemptionCheckpointHandler, after a checkpoint, to request a restart
REFUSED = 78  # exit code of a task whose program can't work as it is configured; EX_CONFIG in sysexits.h
SIGKILL, SIGTERM = 9, 15

# Linux's signal numbers. Pure modules may not import `signal`.
SIGNAL_NAMES = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
    18: "SIGCONT", 19: "SIGSTOP", 20: "SIGTSTP", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip


def signal_name(number: int) -> str:
    """Return the name of a signal, such as `SIGTERM`; if the signal has no name, return a text such as `signal 63`."""
    return SIGNAL_NAMES.get(number, f"signal {number}")


class Asked(enum.StrEnum):
    """Why clusterkit itself ended an attempt. Journals contain the values. Messages contain `text`."""

    text: str

    def __new__(cls, value: str, text: str) -> Self:
        reason = str.__new__(cls, value)
        reason._value_, reason.text = value, text
        return reason

    TEARDOWN = "ended by the teardown", "stopped with the run"
    SUCCESS = "ended after the job's success", "stopped: the job had succeeded"
    GANG = "ended to restart with its peers", "stopped to restart with its peers"
    STALL = "ended for its stall", "stopped: it had stalled"
    REQUEST = "ended to restart, as asked", "stopped to restart, on request"
    EDIT = "ended for a change of the program", "stopped: the program had changed"
    SUSPENSION = "ended with its allocation", "stopped: its allocation had ended"
    DRAIN = "ended to move to another host", "stopped to move to another host"


@dataclass(frozen=True, slots=True)
class Exit:
    """How an attempt ended.

    Exactly one of these is set: `code`, `signal`, `error` (the reason why the attempt did not start), `host` (the host
    that was lost with the attempt), `lost` (the supervisor was lost, so nobody saw the end). Three fields describe an
    `error`. `unfit` is True if the cause is a condition of the host, such as a full disk. `unreached` are the peers
    that did not answer. `crowded` is True if the hosts have no room for all tasks.
    """

    code: int | None = None
    signal: int | None = None
    error: str | None = None
    out_of_memory: bool = False
    asked: Asked | None = None
    host: str | None = None
    lost: bool = False
    unfit: bool = False
    unreached: tuple[Task, ...] = ()
    crowded: bool = False

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def preempted(self) -> bool:
        """Return whether the exit code says that the task has saved a checkpoint and requests a restart."""
        return self.code == PREEMPTED

    def __str__(self) -> str:
        if self.error is not None:
            return f"could not be started: {self.error}"
        if self.host is not None:
            return f"was lost with its host {self.host}"
        if self.lost:
            return "was lost with its supervisor"
        if self.signal is not None:
            name = signal_name(self.signal)
            how = f"was killed by the kernel, out of memory ({name})" if self.out_of_memory else f"was killed by {name}"
        else:
            name = f"exit code {self.code}"
            how = f"exited with code {self.code}" + (" (requests a restart)" if self.preempted else "")
        return how if self.asked is None else f"{self.asked.text} ({name})"


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that failed.

    `at` is in seconds of the monotonic clock. `tail` is the end of the log, `exception` the last uncaught exception.
    `step` is the newest step that the task reported. If the failure is the cause and its task reported no step, `step`
    is the newest step of all training tasks. `fault` is the number of the injected fault that explains the failure.
    `paused` are the peers whose pause explains the failure.
    """

    task: Task
    attempt: int
    exit: Exit
    at: float
    tail: tuple[str, ...] = ()
    exception: str | None = None
    step: int | None = None
    fault: int | None = None
    paused: tuple[Task, ...] = ()


class Blame(NamedTuple):
    """Failures that happened together, divided by role. `same` are independent failures with the cause's error."""

    cause: Failure
    same: tuple[Failure, ...] = ()
    collateral: tuple[Failure, ...] = ()


class RoleKind(enum.StrEnum):
    """The role of a failed attempt when several attempts failed together."""

    CAUSE = "cause"
    SAME = "same"  # an independent failure with the same error as the cause
    COLLATERAL = "collateral"


@dataclass(frozen=True, slots=True)
class FailureRole:
    """The role of an attempt among failures that happened together. `task` and `attempt` identify the cause."""

    kind: RoleKind
    task: Task
    attempt: int


class AttemptEnded(AttemptEvent):
    """An attempt has ended. The fields describe the attempt; times are in seconds since the run began.

    When more is decided, the event is recorded again, and replaces the earlier record. `exit` is None if nobody saw the
    end. `fault` is the number of the injected fault that explains the failure. `role` is set when the following
    restart, or the end of the run, is decided.
    """

    started: float
    ended: float | None
    exit: Exit | None
    first_step: int | None
    last_step: int | None
    resumed_step: int | None
    resumed_from: str | None
    fault: int | None = None
    role: FailureRole | None = None


def diverged(step: int) -> str:
    """Return a warning that the loss became NaN or infinite at this step."""
    return f"The loss is not a number, first at step {step}."


class RunState(enum.StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"  # the run was ended by a signal to the supervisor, or on request
    TIMED_OUT = "timed out"
    SUSPENDED = "suspended"  # the run ended with its allocation, and continues in another one


class Reservation(enum.StrEnum):
    """Why a run that succeeded is not what was asked for. `--allow` takes the values."""

    ALONE = "alone"  # each task trained by itself, although it has peers
    UNFINISHED = "unfinished"  # a worker failed or still trained when the first worker had ended
    NAN = "nan"  # the last loss is NaN or infinite
    FAULTS = "faults"  # a fault that was asked for was never injected
    VERIFY = "verify"  # the first steps differ from those of one process
    UNSAVED = "unsaved"  # the result could not be written, as when the run directory was removed


@dataclass(frozen=True, slots=True)
class NotInjected:
    """A requested fault that was never injected. `why` is the reason, as a clause."""

    fault: str
    why: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run: the contents of `result.json`, and the exit code of `up`.

    | field | meaning |
    | --- | --- |
    | same | other tasks' independent failures with the same error as the cause |
    | repeated | True if the task's previous attempt failed in the same way, and training made no progress since |
    | usage_error | True if a restart is useless: the program, an argument, a path or the configuration is wrong |
    | reservations | why the success is not what was asked for, so that `exit_code` is 3; without what --allow names |
    | not_injected | requested faults that were never injected |
    | explanations | why the run failed, or did not train as intended, and what to do |
    | finding | the first of the explanations, as text |
    | lost | True if the run was cut off, as when its supervisor was killed; `--continue` may continue the run |
    | given_up | the workers without which the run continued |
    | undistributed | the tasks that trained alone although they have peers |
    | unfinished | training tasks whose programs had not finished when the leader succeeded |
    | metrics | the last metrics of the first task that had any; None for NaN and infinities |
    | diverged_at | the step of the first loss that was NaN or infinite; None if the last loss is a number |
    | short | True if the run succeeded with fewer steps than the leader had announced |
    | verification | the verdict of --verify |
    | loop | True if the program has its own training loop instead of Keras' `fit` |
    """

    state: RunState
    exit_code: int
    reason: str
    # The fields below have defaults. If the supervisor was killed or failed, the guardian's result lacks these fields.
    cause: Failure | None = None
    collateral: tuple[Failure, ...] = ()
    attempts: tuple[AttemptEnded, ...] = ()
    restarts: int = 0
    last_step: int | None = None
    duration: float = 0.0
    same: tuple[Failure, ...] = ()
    repeated: bool = False
    not_injected: tuple[NotInjected, ...] = ()
    finding: str | None = None
    checkpoint: str | None = None  # the newest reported checkpoint, from which the job can be resumed
    lost: bool = False
    given_up: tuple[Task, ...] = ()
    undistributed: Undistributed | None = None
    usage_error: bool = False
    explanations: tuple[Explanation, ...] = ()
    unfinished: tuple[Failure, ...] = ()
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    loop: bool = False
    diverged_at: int | None = None
    short: bool = False
    verification: Verification | None = None
    reservations: tuple[Reservation, ...] = ()

    def last_attempt(self, task: Task) -> AttemptEnded | None:
        """Return the task's last attempt, or None if the task was never started."""
        return next((ended for ended in reversed(self.attempts) if ended.task == task), None)

    @property
    def fine(self) -> bool:
        """Return whether the run succeeded without reservations and without doubts."""
        return self.exit_code == 0 and not self.doubts

    @property
    def overcome(self) -> tuple[AttemptEnded, ...]:
        """Return the failures that caused a restart and that no injected fault explains, if the run succeeded."""
        causes = [ended for ended in self.attempts if ended.role and ended.role.kind is RoleKind.CAUSE]
        return tuple(ended for ended in causes if ended.fault is None and self.state is RunState.SUCCEEDED)

    @property
    def exact(self) -> tuple[Explanation, ...]:
        """Return the explanations without the one that only says that tasks trained alone."""
        return tuple(one for one in self.explanations if one.means != str(self.undistributed))

    @property
    def doubts(self) -> tuple[Explanation, ...]:
        """Return the explanations if the run succeeded without a failure of its own, but did not train as intended."""
        return self.exact if self.state is RunState.SUCCEEDED and not self.overcome else ()

    @property
    def word(self) -> str:
        """Return the state of the run as text; `lost` if the supervisor or the guardian was killed."""
        return "lost" if self.lost else self.state.value

    @property
    def ended(self) -> str:
        """Return how the run ended, as the predicate of a sentence: `failed`, `was lost`."""
        return f"was {self.word}" if self.lost or self.state is RunState.SUSPENDED else self.word

    @property
    def mark(self) -> str:
        """Return one character for how the run ended. It depends on nothing else, so that all doors show the same."""
        if self.state is RunState.SUCCEEDED:
            return "✔" if self.fine else "!"
        return "–" if self.state is RunState.SUSPENDED else "✘"

    @property
    def final(self) -> bool:
        """Return whether the run is over for good, so that `--continue` can't continue it."""
        return not self.lost and self.state is not RunState.SUSPENDED
