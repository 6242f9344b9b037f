"""What `doctor` looks at, as facts, and what it says about them, as findings."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from clusterkit.words.model import JobSpec


def _nothing() -> MappingProxyType[str, Any]:
    return MappingProxyType({})


class Grade(enum.StrEnum):
    """What a finding means for somebody who wants to run a job."""

    FINE = "fine"
    NOTE = "note"  # good to know, and nothing to do about it
    DOUBT = "doubt"  # something will be slower, or missing, or other than expected
    WRONG = "wrong"  # it does not work


class Topic(enum.StrEnum):
    """The groups of findings, in the order in which they are shown; the value is the title."""

    PYTHON = "Python and its packages"
    MACHINE = "The machine"
    STATE = "Where runs are kept"
    ENVIRONMENT = "The environment"
    FEATURES = "What of clusterkit works here"
    JOB = "The job"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence or two; what is not fine says what to do. `about` tells interpreters apart where there are more."""

    topic: Topic
    name: str
    grade: Grade
    text: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Unmet:
    """What an installed package requires and does not have; `has` is the version that is there instead, if any."""

    of: str
    name: str
    wanted: str
    has: str | None


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter that tasks would be run with, as it tells of itself; `problem` where it does not."""

    path: str
    problem: str | None = None
    version: tuple[int, ...] = ()
    implementation: str = "cpython"
    libc: str = "glibc"
    arch: str = "x86_64"
    packages: Mapping[str, str] = field(default_factory=_nothing)  # distribution, as the index writes it, to version
    twice: Mapping[str, tuple[str, ...]] = field(default_factory=_nothing)
    modules: Mapping[str, str] = field(default_factory=_nothing)  # that can be imported, to their files, if any
    beside: str | None = None  # the program's directory, from which it imports first
    unmet: tuple[Unmet, ...] = ()
    checked: bool = True  # whether requirements were looked at
    is_own: bool = True  # whether it is clusterkit's own

    @property
    def version_text(self) -> str:
        """As people write it."""
        return ".".join(map(str, self.version))


@dataclass(frozen=True, slots=True)
class Machine:
    """Cores, memory and limits. Sizes in bytes; None: no limit, or not told."""

    cores: int
    memory: int
    free: int
    task_memory: int  # of one task that has imported TensorFlow
    descriptors: int | None  # open at once in a process, as it is and as it may be raised to
    descriptors_hard: int | None
    task_descriptors: int
    kernel: str = ""
    missing: tuple[str, ...] = ()  # of the kernel: clauses
    quota: float | None = None  # cores that the control group allows
    group_memory: int | None = None
    group_tasks: int | None = None
    threads: int | None = None  # of this user
    threads_now: int = 0
    shared_memory: int | None = None
    has_avx: bool | None = None
    kernel_log: bool = True
    gpus: tuple[str, ...] = ()
    why_no_gpu: str | None = None
    gpu_devices: int = 0  # that the system shows


@dataclass(frozen=True, slots=True)
class Ports:
    """Ephemeral ports, and why one can't be held for a server that joins it, if it can't."""

    count: int
    free: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The state directory and what is in it."""

    path: str
    problem: str | None = None
    room: int = 0
    socket: int = 0  # bytes of the longest socket's path
    socket_most: int = 107
    temporary_problem: str | None = None
    live: int = 0
    strays: Mapping[str, int] = field(default_factory=_nothing)  # processes by run id


@dataclass(frozen=True, slots=True)
class Rights:
    """Why there can be no virtual network, or full disk, in a clause; None where there can."""

    root: bool
    network: str | None = None
    disk: str | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """Whether a small job ran, and a sentence about that."""

    went_well: bool
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was looked at: `interpreters` are the tasks', `own` is clusterkit's.

    `env` is what the tasks would get; `job` is None where none was asked about.
    """

    interpreters: tuple[Interpreter, ...]
    own: Interpreter
    machine: Machine
    ports: Ports
    place: Place
    rights: Rights
    env: Mapping[str, str]
    keras_backend: str | None = None  # in the user's keras.json
    job: JobSpec | None = None
    shortages: tuple[str, ...] = ()  # of what the job needs: what `up` warns of
    lacking: tuple[str, ...] = ()  # of what the job asks for: what `up` refuses
    trial: Trial | None = None
