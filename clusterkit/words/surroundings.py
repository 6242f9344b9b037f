"""Events of what surrounds the tasks: their hosts, TensorBoard, the dashboard, the files of the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clusterkit.words.model import Tagged, Task


@dataclass(frozen=True, slots=True)
class Placed(Tagged):
    """The host and the endpoint of each task from now on. `others` are the hosts without a task.

    `readmitted`: avoided hosts that have tasks again, since the other hosts could not take all of them.
    """

    hosts: Mapping[Task, str]
    endpoints: Mapping[Task, str]
    others: tuple[str, ...] = ()
    readmitted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostJoined(Tagged):
    """A host joined after the tasks were placed. It gets tasks at the next placement."""

    host: str


@dataclass(frozen=True, slots=True)
class HostCut(Tagged):
    """The connection to a host's agent is lost. Its tasks continue; the run waits `patience` seconds for the agent."""

    host: str
    why: str
    patience: float


@dataclass(frozen=True, slots=True)
class HostBack(Tagged):
    """The agent of a host whose connection was lost is connected again. Nothing was lost."""

    host: str


@dataclass(frozen=True, slots=True)
class HostDraining(Tagged):
    """A host is about to leave; `why` is a clause. Its tasks end within their grace period and move to other hosts."""

    host: str
    why: str


@dataclass(frozen=True, slots=True)
class HostLost(Tagged):
    """A host is lost for good; `why` is a sentence. The event follows the end of every attempt there.

    `left`: the agent announced that it leaves, after it had ended its tasks.
    """

    host: str
    why: str
    left: bool = False


@dataclass(frozen=True, slots=True)
class TensorBoardReady(Tagged):
    """TensorBoard is available at this address."""

    address: str


@dataclass(frozen=True, slots=True)
class TensorBoardLost(Tagged):
    """TensorBoard could not be started, or has failed since. The run continues."""

    why: str


@dataclass(frozen=True, slots=True)
class DashboardReady(Tagged):
    """The dashboard is available at this address. Opening it needs a token, which is not recorded."""

    address: str


@dataclass(frozen=True, slots=True)
class DashboardLost(Tagged):
    """The dashboard could not be started, or has failed since. The run continues."""

    why: str


@dataclass(frozen=True, slots=True)
class ProgramChanged(Tagged):
    """Files of the program, or modules of its own, were saved, created, renamed or deleted.

    `files` are relative to the program's directory if they are below it; `ago` is the seconds from the change to its
    detection. `problem`, a clause, says why the program can't run now. `same`: the files equal those of the last change
    without a problem, or of the run's start.
    """

    files: tuple[str, ...]
    ago: float = 0.0
    problem: str = ""
    same: bool = False


OfHost = Placed | HostJoined | HostCut | HostBack | HostDraining | HostLost
