"""What `clusterkit manifests` was asked for: a job, its name, and what its pods get."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterkit.job.devices import computing
from clusterkit.job.options import JobOptions
from clusterkit.words.job import JobSpec

JSON = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]
Document = Mapping[str, JSON]  # one Kubernetes object, or a part of one

MOST = 2**31 - 1  # of a number in an object
HOME = "/var/lib/clusterkit"  # where the pods have the volume that they share; CLUSTERKIT_HOME of the supervisor


class Secret(enum.StrEnum):
    """Whether the Secret of the run's key is among the documents."""

    TOO = "too"
    OUT = "out"
    ONLY = "only"


@dataclass(frozen=True, slots=True)
class Place:
    """What is the same in the metadata of every object of a run; `run` is its id, with which their names begin."""

    run: str
    namespace: str | None

    @property
    def key(self) -> str:
        return f"{self.run}-key"


@dataclass(frozen=True, slots=True)
class Flags:
    """What the flags say beside the job."""

    image: str
    namespace: str | None = None
    hosts: int | None = None
    storage: str | None = None
    storage_size: str | None = None
    claim: str | None = None
    memory: str | None = None
    env_from: tuple[str, ...] = ()
    secret: Secret = Secret.TOO


@dataclass(frozen=True, slots=True)
class Manifest:
    """A job that can be written down for Kubernetes.

    `name` is the run's id, with which the name of every object begins. `options` are those of the job without it.
    """

    name: str
    job: JobSpec
    options: JobOptions
    flags: Flags

    @property
    def place(self) -> Place:
        return Place(self.name, self.flags.namespace)

    @property
    def hosts(self) -> int:
        """How many agents have tasks."""
        return hosts_of(self.job, self.flags)

    @property
    def agents(self) -> int:
        """How many agents there are, with those that have no task until another one is lost."""
        return agents_of(self.job, self.flags)

    @property
    def claim(self) -> str:
        return self.flags.claim or self.name


def hosts_of(job: JobSpec, flags: Flags) -> int:
    """As many as were asked for, or one for each task that computes."""
    return len(computing(job)) if flags.hosts is None else flags.hosts


def agents_of(job: JobSpec, flags: Flags) -> int:
    return hosts_of(job, flags) + job.hosts.spare
