"""How attempts and runs end."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterkit.words.distribution import Undistributed
from clusterkit.words.explanation import Explanation
from clusterkit.words.model import Tagged, Task

CRASHED = 70  # clusterkit itself failed; as sysexits.h has it
PROVED_NOTHING = 3  # of `up`: the job succeeded, but a fault that was asked for was never injected
SUSPENDED = 75  # of `up`: the run continues in another allocation; "try again", as sysexits.h has it
PREEMPTED = 42  # PreemptionCheckpointHandler of TensorFlow: "checkpointed, restart me"
SIGKILL = 9

# Named here, since pure modules import no signal module; Linux's numbers.
SIGNAL_NAMES = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
    18: "SIGCONT", 19: "SIGSTOP", 20: "SIGTSTP", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip


def signal_name(number: int) -> str:
    """`SIGTERM`, or `signal 63` for a number without a name."""
    return SIGNAL_NAMES.get(number, f"signal {number}")


class Asked(enum.StrEnum):
    """Why the supervisor itself ended an attempt."""

    TEARDOWN = "stopped with the run"
    SUCCESS = "stopped: the job had succeeded"
    GANG = "stopped to restart with its peers"
    STALL = "stopped: it had stalled"
    REQUEST = "stopped to restart, on request"
    EDIT = "stopped: the program had changed"
    SUSPENSION = "stopped: its allocation had ended"
    DRAIN = "stopped to move to another host"


@dataclass(frozen=True, slots=True)
class Exit:
    """How one attempt ended.

    Exactly one of `code`, `signal`, `error` (it never started), `host` (the one that was lost with it) and `lost` (its
    supervisor was, so that nobody saw its end) is set. With `unfit`, the error is its host's own, such as a full disk;
    `unreached` are the peers that did not answer there. With `crowded`, the hosts have no room for all tasks.
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
        """Exit code 0."""
        return self.code == 0

    @property
    def preempted(self) -> bool:
        """The task saved a checkpoint and asks for a restart."""
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
            how = f"exited with code {self.code}" + (" (preempted)" if self.preempted else "")
        return how if self.asked is None else f"{self.asked} ({name})"


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that failed.

    `at` is in seconds of the monotonic clock, `tail` the end of its log, `exception` its last uncaught exception.
    `step` is the newest that it reported; for a cause without steps of its own, that of the tasks that train.
    """

    task: Task
    attempt: int
    exit: Exit
    at: float
    tail: tuple[str, ...] = ()
    exception: str | None = None
    step: int | None = None


class Blame(NamedTuple):
    """Failures that happened together. `same` are other tasks' own failures with the same error as the cause."""

    cause: Failure
    same: tuple[Failure, ...] = ()
    collateral: tuple[Failure, ...] = ()


class RoleKind(enum.StrEnum):
    """The part of an attempt in a common failure."""

    CAUSE = "cause"
    SAME = "same"  # its own failure, with the same error as the cause
    COLLATERAL = "collateral"


@dataclass(frozen=True, slots=True)
class FailureRole:
    """The part of an attempt in a common failure; `task` and `attempt` are those of the cause."""

    kind: RoleKind
    task: Task
    attempt: int


@dataclass(frozen=True, slots=True)
class AttemptEnded(Tagged):
    """An attempt is over: its facts, and the decisions about it. Times in seconds since the run began.

    When more is decided it is recorded again and replaces the earlier record. `exit` is None if nobody saw the end.
    `fault` is the number of the injected fault that explains its failure. `role` is decided together with the restart
    that follows, or the end of the run.
    """

    task: Task
    attempt: int
    started: float
    ended: float | None
    exit: Exit | None
    first_step: int | None
    last_step: int | None
    resumed_step: int | None
    resumed_from: str | None
    fault: int | None = None
    role: FailureRole | None = None


class RunState(enum.StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"  # by a signal to the supervisor
    TIMED_OUT = "timed out"
    SUSPENDED = "suspended"  # with its allocation; it continues in another one


@dataclass(frozen=True, slots=True)
class NotInjected:
    """A requested fault that was never injected; `why` is a clause."""

    fault: str
    why: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """The end of a run: what `result.json` holds and `up` exits with.

    `same` are other tasks' own failures with the same error as the cause. `repeated`: the attempt before the cause's
    failed in the same way, and training got no further since. `usage_error`: it was not restarted, since an error of
    the program, its arguments or its paths came before any step, and would come again. `not_injected` are the faults
    that had no effect; if the job succeeded nevertheless, they make `exit_code` 3. `explanations` say why the run
    failed and what to do, the most specific first, which `finding` has as a text. `lost`: something other than the run
    ended its supervisor. `given_up` are the workers that it continued without. `undistributed` are tasks that each
    trained alone although they have peers. `unfinished` are training tasks that had not finished their program when a
    successful job's leader had: they failed without it, or were ended. `metrics` are the last ones of the first task
    that had any; None for NaN and infinities.
    """

    state: RunState
    exit_code: int
    reason: str
    # Missing in a result that was written in place of a supervisor that was killed or failed.
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
    checkpoint: str | None = None  # the newest one that was reported, from which the job can be resumed
    lost: bool = False
    given_up: tuple[Task, ...] = ()
    undistributed: Undistributed | None = None
    usage_error: bool = False
    explanations: tuple[Explanation, ...] = ()
    unfinished: tuple[Failure, ...] = ()
    metrics: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def fine(self) -> bool:
        """Whether the run succeeded and nothing about that success is in doubt."""
        return self.exit_code == 0 and self.undistributed is None and not self.unfinished

    @property
    def word(self) -> str:
        """How the run ended, in a word: `lost` if its supervisor or guardian was killed, with or without a result."""
        return "lost" if self.lost else self.state.value

    @property
    def final(self) -> bool:
        """Whether the run is over for good, so that `--continue` refuses it."""
        return not self.lost and self.state is not RunState.SUSPENDED
