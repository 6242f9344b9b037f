"""Events of hosts: where tasks are, and what becomes of the hosts that they are on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clusterkit.words.model import Task


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the tasks are from now on: the host of each, and its endpoint. `others` are the hosts without a task.

    `readmitted`: hosts that were to be avoided and have tasks again, since the others could not take all of them.
    """

    hosts: Mapping[Task, str]
    endpoints: Mapping[Task, str]
    others: tuple[str, ...] = ()
    readmitted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostJoined:
    """A host has come after the tasks were placed. It gets some when they are placed again."""

    host: str


@dataclass(frozen=True, slots=True)
class HostCut:
    """The connection to a host's agent is cut. Its tasks continue; for `patience` seconds it is waited for."""

    host: str
    why: str
    patience: float


@dataclass(frozen=True, slots=True)
class HostBack:
    """The agent of a host that was cut off is connected again. Nothing was lost."""

    host: str


@dataclass(frozen=True, slots=True)
class HostDraining:
    """A host is about to leave; `why` is a clause. Its tasks end within their grace period, and move to others."""

    host: str
    why: str


@dataclass(frozen=True, slots=True)
class HostLost:
    """A host is gone for good; `why` is a sentence. Comes when each attempt there is over.

    `left`: its agent announced it, and had ended its tasks by then.
    """

    host: str
    why: str
    left: bool = False


OfHost = Placed | HostJoined | HostCut | HostBack | HostDraining | HostLost
