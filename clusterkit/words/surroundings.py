"""Events of what surrounds the tasks: their hosts, TensorBoard, the dashboard, the files of the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clusterkit.words.model import Tagged, Task


@dataclass(frozen=True, slots=True)
class Placed(Tagged):
    """Where the tasks are from now on: the host of each, and its endpoint. `others` are the hosts without a task.

    `readmitted`: hosts that were to be avoided and have tasks again, since the others could not take all of them.
    """

    hosts: Mapping[Task, str]
    endpoints: Mapping[Task, str]
    others: tuple[str, ...] = ()
    readmitted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostJoined(Tagged):
    """A host has come after the tasks were placed. It gets some when they are placed again."""

    host: str


@dataclass(frozen=True, slots=True)
class HostCut(Tagged):
    """The connection to a host's agent is cut. Its tasks continue; for `patience` seconds it is waited for."""

    host: str
    why: str
    patience: float


@dataclass(frozen=True, slots=True)
class HostBack(Tagged):
    """The agent of a host that was cut off is connected again. Nothing was lost."""

    host: str


@dataclass(frozen=True, slots=True)
class HostDraining(Tagged):
    """A host is about to leave; `why` is a clause. Its tasks end within their grace period, and move to others."""

    host: str
    why: str


@dataclass(frozen=True, slots=True)
class HostLost(Tagged):
    """A host is gone for good; `why` is a sentence. Comes when each attempt there is over.

    `left`: its agent announced it, and had ended its tasks by then.
    """

    host: str
    why: str
    left: bool = False


@dataclass(frozen=True, slots=True)
class TensorBoardReady(Tagged):
    """TensorBoard, which was asked for, answers at this address."""

    address: str


@dataclass(frozen=True, slots=True)
class TensorBoardLost(Tagged):
    """TensorBoard is not available, or not any more, and why. The run continues."""

    why: str


@dataclass(frozen=True, slots=True)
class DashboardReady(Tagged):
    """The dashboard, which was asked for, answers at this address; who opens it needs the token, which is not here."""

    address: str


@dataclass(frozen=True, slots=True)
class DashboardLost(Tagged):
    """The dashboard is not available, or not any more, and why. The run continues."""

    why: str


@dataclass(frozen=True, slots=True)
class ProgramChanged(Tagged):
    """Files of the program, or modules of its own, were saved, created, renamed or deleted.

    `files` are relative to the program's directory if they are below it; `ago` is how many seconds before that was
    seen. `problem` is a clause: why the program can't run as it is now. `same`: the files are as they were at the last
    change without a problem, or when the run began.
    """

    files: tuple[str, ...]
    ago: float = 0.0
    problem: str = ""
    same: bool = False


OfHost = Placed | HostJoined | HostCut | HostBack | HostDraining | HostLost
