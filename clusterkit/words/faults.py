"""Faults: what is broken on purpose, where, and when. Written `ACTION TARGET [for=10s] [@ TRIGGER]`."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from clusterkit.text.durations import exact
from clusterkit.words.model import TaskType


def plain(value: float) -> str:
    """Write a number for people, without rounding errors: `100`, `0.05`, `1234567`."""
    return f"{value:.12g}"


class FaultAction(enum.StrEnum):
    """The kinds of faults; Jepsen's words where it has them."""

    KILL = "kill"  # SIGKILL
    TERM = "term"  # SIGTERM
    STOP = "stop"  # SIGSTOP, then SIGCONT
    SLOW = "slow"  # a share of the CPU
    HANG_START = "hang-start"  # the next attempt begins late
    MEMORY = "memory"  # the task can't get more memory than a limit
    PARTITION = "partition"  # packets between tasks are lost, all of them
    DELAY = "delay"
    LOSS = "loss"
    RATE = "rate"
    RESET = "reset"  # connections
    CORRUPT = "corrupt-checkpoint"
    DISK_FULL = "disk-full"  # the checkpoint directory has no room left


ON_NETWORK = frozenset(
    {FaultAction.PARTITION, FaultAction.DELAY, FaultAction.LOSS, FaultAction.RATE, FaultAction.RESET}
)
ON_STORAGE = frozenset({FaultAction.CORRUPT, FaultAction.DISK_FULL})  # they have no target
AT_ONCE = frozenset({FaultAction.KILL, FaultAction.TERM, FaultAction.RESET, FaultAction.CORRUPT})  # nothing to heal


@dataclass(frozen=True, slots=True)
class Target:
    """One task of a type by its index, `count` random ones, or all (None); the type may be any.

    `worker:1`, `worker`, `worker:*`; `any`, `random(2)`, `all`.
    """

    type: TaskType | None = None
    index: int | None = None
    count: int | None = 1

    def __str__(self) -> str:
        if self.type is None:
            return "all" if self.count is None else "any" if self.count == 1 else f"random({self.count})"
        if self.index is not None:
            return f"{self.type}:{self.index}"
        return str(self.type) if self.count == 1 else f"{self.type}:*"


class Moment(enum.StrEnum):
    """What a trigger waits for."""

    TIME = "time"
    STEP = "step"
    CHECKPOINT = "checkpoint"
    RESTART = "restart"
    READY = "ready"
    PHASE = "phase"


class Phase(enum.StrEnum):
    """What a task is about to do, or has just done. The runtime of a Python program reports it at the very moment."""

    IMPORTING = "importing"  # TensorFlow or Keras is imported first; in a warm fork, the program begins
    STARTING = "starting"  # right before the first training step
    SAVING = "saving"  # before the first of the next four in a save
    SAVING_OPEN = "saving-open"  # a file of a checkpoint or model is about to be opened for writing
    SAVING_WRITE = "saving-write"
    SAVING_SYNC = "saving-sync"
    SAVING_RENAME = "saving-rename"
    SAVED = "saved"  # right after the last call of a save
    RESTORING = "restoring"  # a checkpoint is about to be read
    EVALUATING = "evaluating"
    EXPORTING = "exporting"  # a model is about to be saved
    ENDING = "ending"  # the program's main code has ended; the exit handlers come next


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a fault happens: at a time, at a step, or at the nth checkpoint, restart, readiness, or `phase` of a target.

    With `every`, repeatedly at that distance; each time with `probability`, and delayed by `after` seconds. Seconds
    count from when the run learns of the fault: its beginning, or the request.
    """

    moment: Moment
    at: float = 1
    every: bool = False
    probability: float = 1.0
    after: float = 0.0
    phase: Phase | None = None

    def __str__(self) -> str:
        number = f"{exact(self.at)}s" if self.moment is Moment.TIME else exact(self.at)
        match self.moment, self.every:
            case Moment.TIME, False:
                text = number
            case Moment.TIME, True:
                text = f"every={number}"
            case Moment.STEP, False:
                text = f"step={number}"
            case Moment.STEP, True:
                text = f"every={number}steps"
            case Moment.PHASE, _:
                text = f"phase={self.phase}" if self.at == 1 else f"phase={self.phase}:{number}"
            case moment, every:
                text = f"every={moment}" if every else moment.value if self.at == 1 else f"{moment}={number}"
        text += f" after={exact(self.after)}s" if self.after else ""
        return text if self.probability == 1 else f"{text} p={exact(self.probability)}"


@dataclass(frozen=True, slots=True)
class Fault:
    """One line of the grammar.

    `seconds` is the duration (None: until it is healed). `amount` is the action's: the share of CPU or of packets (0 to
    1), the delay in seconds, bytes a second, or bytes. `others` is the far side of a partition, delay, loss, rate or
    reset; empty means all other tasks. `how` is for corrupt-checkpoint: flip or truncate.
    """

    action: FaultAction
    targets: tuple[Target, ...] = ()
    others: tuple[Target, ...] = ()
    seconds: float | None = None
    amount: float | None = None
    jitter: float = 0.0
    how: str | None = None
    trigger: Trigger | None = None

    @property
    def is_random(self) -> bool:
        """Whether the run's seed decides anything about it: which tasks, whether, which packets, or which bytes."""
        drawn = any(one.index is None and one.count is not None for one in (*self.targets, *self.others))
        chance = self.trigger is not None and self.trigger.probability < 1
        return drawn or chance or bool(self.jitter) or self.action in (FaultAction.LOSS, FaultAction.CORRUPT)

    def __str__(self) -> str:
        words = [self.action.value, ",".join(map(str, self.targets))]
        if self.others:
            words += ["|", ",".join(map(str, self.others))]
        if self.amount is not None:
            words.append(f"{AMOUNTS[self.action].name}={AMOUNTS[self.action].text(self.amount)}")
        if self.jitter:
            words.append(f"jitter={exact(self.jitter)}s")
        if self.how is not None:
            words.append(f"how={self.how}")
        if self.seconds is not None:
            words.append(f"for={exact(self.seconds)}s")
        if self.trigger is not None:
            words.append(f"@ {self.trigger}")
        return " ".join(word for word in words if word)


class Unit(enum.Enum):
    """The unit of an amount."""

    SHARE = enum.auto()
    SECONDS = enum.auto()
    BYTES = enum.auto()


@dataclass(frozen=True, slots=True)
class Amount:
    """The amount that an action takes: its name in the grammar, its unit, and its default."""

    name: str
    unit: Unit
    usual: float | None

    def text(self, value: float) -> str:
        """The amount as the grammar writes it."""
        if self.unit is Unit.SHARE:
            return f"{plain(100 * value)}%"
        return f"{exact(value)}s" if self.unit is Unit.SECONDS else f"{value:.0f}B"


AMOUNTS = {
    FaultAction.SLOW: Amount("share", Unit.SHARE, 0.2),
    FaultAction.LOSS: Amount("share", Unit.SHARE, 0.1),
    FaultAction.DELAY: Amount("by", Unit.SECONDS, 0.1),
    FaultAction.RATE: Amount("limit", Unit.BYTES, 1e5),  # a second
    FaultAction.MEMORY: Amount("limit", Unit.BYTES, None),  # what it has now
}


def seeded_uniform(seed: int, key: str, nth: int) -> float:
    """A number in [0, 1) that depends only on its arguments, so that a journal can be replayed."""
    import hashlib  # OpenSSL takes a tenth of what `ps` costs, and `ps` draws nothing

    digest = hashlib.blake2b(f"{seed}/{key}/{nth}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
