"""Events about what surrounds the tasks: hosts, TensorBoard, the dashboard, and the program's files."""

from __future__ import annotations

from collections.abc import Mapping

from clusterkit.words.model import Tagged, Task


class Placed(Tagged):
    """Tasks were placed on hosts, as `hosts` and `endpoints` map them. `others` are the hosts without tasks.

    `readmitted` are avoided hosts that get tasks again, since the other hosts have no room for all tasks.
    """

    hosts: Mapping[Task, str]
    endpoints: Mapping[Task, str]
    others: tuple[str, ...] = ()
    readmitted: tuple[str, ...] = ()


class HostJoined(Tagged):
    """A host joined after the tasks were placed. The next placement can use the host."""

    host: str


class HostCut(Tagged):
    """The connection to a host's agent is lost. The tasks continue. The agent has `patience` seconds to reconnect."""

    host: str
    why: str
    patience: float


class HostBack(Tagged):
    """A host's agent has connected again after its connection was lost. No task was lost."""

    host: str


class HostDraining(Tagged):
    """A host is about to leave; `why` is a clause. Its tasks end within their grace period and move to other hosts."""

    host: str
    why: str


class HostLost(Tagged):
    """A host is lost for good; `why` is a sentence. Earlier events have reported the ends of all attempts on the host.

    `left` is True if the agent announced its exit after ending its tasks.
    """

    host: str
    why: str
    left: bool = False


class TensorBoardReady(Tagged):
    """TensorBoard is available at this address."""

    address: str


class TensorBoardLost(Tagged):
    """TensorBoard could not be started, or has failed since then. The run continues."""

    why: str


class DashboardReady(Tagged):
    """The dashboard is available at this address. Opening it needs a token, which is not recorded."""

    address: str


class DashboardLost(Tagged):
    """The dashboard could not be started, or has failed since then. The run continues."""

    why: str


class ProgramChanged(Tagged):
    """Files of the program, or of modules that belong to it, were saved, created, renamed or deleted.

    `files` are relative to the program's directory if they are in it. `ago` is the number of seconds from the change to
    its detection. `problem` is a clause that says why the program can't run now. `same` is True if the files have the
    same contents as after the last change without a problem, or as at the start of the run.
    """

    files: tuple[str, ...]
    ago: float = 0.0
    problem: str = ""
    same: bool = False


OfHost = Placed | HostJoined | HostCut | HostBack | HostDraining | HostLost
