"""Faults: what is broken on purpose, where, and when. Each is written `ACTION TARGET [for=10s] [@ TRIGGER]`."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from clusterkit.text.durations import exact
from clusterkit.text.spelling import closest
from clusterkit.words.model import TaskType


def plain(value: float) -> str:
    """Format a number for people, without rounding errors, as `100`, `0.05` or `1234567`."""
    return f"{value:.12g}"


class FaultAction(enum.StrEnum):
    """The kinds of faults. Kinds that the test framework Jepsen knows have Jepsen's names."""

    KILL = "kill"  # SIGKILL
    TERM = "term"  # SIGTERM
    STOP = "stop"  # SIGSTOP, then SIGCONT
    SLOW = "slow"  # the task gets only a share of its CPU time
    HANG_START = "hang-start"  # the next attempt starts late
    MEMORY = "memory"  # the memory of the task is limited
    PARTITION = "partition"  # all packets between two groups of tasks are lost
    DELAY = "delay"
    LOSS = "loss"
    RATE = "rate"
    RESET = "reset"  # connections are reset
    CORRUPT = "corrupt-checkpoint"
    DISK_FULL = "disk-full"  # the checkpoint directory has no free space


# Other words for actions. If a user writes one of them, the error message names the action.
SYNONYMS = {
    word: action
    for action, words in {
        FaultAction.KILL: "crash sigkill die",
        FaultAction.TERM: "terminate sigterm preempt evict",
        FaultAction.STOP: "freeze stall pause suspend hang sigstop",
        FaultAction.SLOW: "throttle straggle cpu",
        FaultAction.HANG_START: "late-start slow-start",
        FaultAction.MEMORY: "oom starve ram",
        FaultAction.PARTITION: "cut disconnect isolate split",
        FaultAction.DELAY: "latency lag",
        FaultAction.LOSS: "drop packet-loss",
        FaultAction.RATE: "bandwidth",
        FaultAction.CORRUPT: "corrupt damage",
        FaultAction.DISK_FULL: "disk full enospc",
    }.items()
    for word in words.split()
}

ON_NETWORK = frozenset(
    {FaultAction.PARTITION, FaultAction.DELAY, FaultAction.LOSS, FaultAction.RATE, FaultAction.RESET}
)
ON_STORAGE = frozenset({FaultAction.CORRUPT, FaultAction.DISK_FULL})  # actions without a target
AT_ONCE = frozenset({FaultAction.KILL, FaultAction.TERM, FaultAction.RESET, FaultAction.CORRUPT})  # without a duration


def no_action(word: str) -> str:
    """Return an error message for a word that is not an action. It names the similar action, or all actions."""
    if word.lower() in SYNONYMS:
        return f"{word} is called {SYNONYMS[word.lower()]} here."
    close = closest(word.lower(), [*FaultAction, *SYNONYMS])
    if close is None:
        return f"there is no action {word!r}. There are {', '.join(FaultAction)}."
    called = f", which is called {SYNONYMS[close]} here" if close in SYNONYMS else ""
    return f"there is no action {word!r}. Did you mean {close}{called}?"


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a fault, written `worker:1`, `worker`, `worker:*`, `any`, `random(2)` or `all`.

    `type` is None for tasks of any type. With `index`, the target is one task. Otherwise, `count` tasks are chosen at
    random, or all tasks if `count` is None.
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
    """The kind of event that a trigger waits for."""

    TIME = "time"
    STEP = "step"
    CHECKPOINT = "checkpoint"
    RESTART = "restart"
    READY = "ready"
    PHASE = "phase"


class Phase(enum.StrEnum):
    """A phase of a program. clusterkit's code in a Python task reports each phase at the moment when it begins."""

    IMPORTING = "importing"  # before the first import of TensorFlow or Keras; in a warm fork: when the program begins
    STARTING = "starting"  # right before the first training step
    SAVING = "saving"  # a save begins; reported before the save's first SAVING_OPEN, _WRITE, _SYNC or _RENAME
    SAVING_OPEN = "saving-open"  # a file of a checkpoint or model is about to be opened for writing
    SAVING_WRITE = "saving-write"
    SAVING_SYNC = "saving-sync"
    SAVING_RENAME = "saving-rename"
    SAVED = "saved"  # right after the last system call of a save
    RESTORING = "restoring"  # a checkpoint is about to be read
    EVALUATING = "evaluating"
    EXPORTING = "exporting"  # a model is about to be saved
    ENDING = "ending"  # the program's main code has ended; the exit handlers come next


@dataclass(frozen=True, slots=True)
class Trigger:
    """When a fault happens: at a time or step, or at the nth checkpoint, restart, readiness or `phase` of its target.

    With `every`, the fault is repeated every `at` seconds or steps, or at each checkpoint or restart. Each time, the
    fault happens with `probability`, `after` seconds later. Times are relative to the run's start or a client request.
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
    """A fault, as written in one line of the grammar.

    `seconds` is the duration; None means that the fault lasts until it is healed. The meaning of `amount` depends on
    the action: a share of CPU or packets (0 to 1), a delay in seconds, bytes a second, or bytes. A network fault is
    between `targets` and `others` (empty: all other tasks). `how` is for corrupt-checkpoint: flip or truncate.
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
        """Return whether the seed decides something: the fault's tasks, its occurrence, or its packets or bytes."""
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


_SIZES = (("GB", 10**9), ("MB", 10**6), ("KB", 10**3))


class Unit(enum.Enum):
    """The unit of an amount."""

    SHARE = enum.auto()
    SECONDS = enum.auto()
    BYTES = enum.auto()


@dataclass(frozen=True, slots=True)
class Amount:
    """The amount of an action: its name in the grammar, its unit, and its default (`usual`)."""

    name: str
    unit: Unit
    usual: float | None

    def text(self, value: float) -> str:
        """Return the value in the notation of the grammar, as `20%`, `0.1s` or `5MB`."""
        if self.unit is Unit.SHARE:
            return f"{plain(100 * value)}%"
        if self.unit is Unit.SECONDS:
            return f"{exact(value)}s"
        name, size = next((unit for unit in _SIZES if value >= unit[1] and round(value) % unit[1] == 0), ("B", 1))
        return f"{round(value) // size}{name}"


AMOUNTS = {
    FaultAction.SLOW: Amount("share", Unit.SHARE, 0.2),
    FaultAction.LOSS: Amount("share", Unit.SHARE, 0.1),
    FaultAction.DELAY: Amount("by", Unit.SECONDS, 0.1),
    FaultAction.RATE: Amount("limit", Unit.BYTES, 1e5),  # bytes a second
    FaultAction.MEMORY: Amount("limit", Unit.BYTES, None),  # by default, the memory in use at the injection
}


def seeded_uniform(seed: int, key: str, nth: int) -> float:
    """Return a number in [0, 1) that depends only on the arguments, so that a journal can be replayed."""
    import hashlib  # imported here, since loading OpenSSL would slow down `ps` by a tenth

    digest = hashlib.blake2b(f"{seed}/{key}/{nth}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
