"""The messages between supervisor and agent: the state machine's orders and events, and messages about the host."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import field

from clusterkit.words import actions, events, wire
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Tagged, Task

# From the supervisor to an agent.


class Open(Tagged):
    """Prepare the host for a run; answered by Opened. All hosts share the run, checkpoint and working directories."""

    run_id: str
    run_directory: str
    checkpoints: str
    cwd: str
    token: str  # part of the name of the file that identifies a shared directory; see fitness.py
    seed: int
    job: JobSpec


class Claim(Tagged):
    """Hold ports for these tasks, which must not be running; answered by Claimed."""

    tasks: tuple[Task, ...]
    here: tuple[Task, ...] = ()  # all tasks that the host must have room for; if empty, these are `tasks`


class Endpoints(Tagged):
    """The endpoints of all of the job's tasks. Sent before the first Spawn."""

    endpoints: Mapping[Task, str]


class Shut(Tagged):
    """End all processes of the run; answered by Gone. If the run is not `over`, the host will need an agent again."""

    over: bool = True


class KeepRunning(Tagged):
    """Continue and wait for orders: the signal concerns the whole run, and the supervisor handles it."""


class Drain(Tagged):
    """Wait for StopAgent: the signal concerns this agent alone, and its tasks are being moved to other hosts."""


class StopAgent(Tagged):
    """End the agent: none of the run's tasks are left on its host."""


# From an agent to the supervisor.


class Opened(Tagged):
    """The agent has prepared its host, or lists the problems that prevented it."""

    problems: tuple[str, ...]
    address: str = ""  # the address at which other hosts reach this host
    delay: float = 0.0  # seconds until the host saw a file that the supervisor had written


class Claimed(Tagged):
    """The answer to Claim: a port for each task in the cluster, or the problem."""

    ports: Mapping[Task, int]
    problem: str | None = None


class SignalReceived(Tagged):
    """The agent received a signal to end; answered by KeepRunning, or by Drain and then StopAgent."""

    signal: int


class Output(Tagged):
    """A part of an attempt's log, at wall time `at`; the bytes are the message's body."""

    task: Task
    attempt: int
    at: float


class Written(Tagged):
    """A part, at `offset`, of a file such as a stack dump; `name` is the file's path in the run directory."""

    name: str
    offset: int


class Used(Tagged):
    """A sample of the host's usage: for each task, and for each GPU by its index, percent and bytes of memory."""

    tasks: Mapping[Task, tuple[float, ...]]
    gpus: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


class Gone(Tagged):
    """The answer to Shut: all of the run's processes on this host have ended."""


ToAgent = Open | Claim | Endpoints | Shut | KeepRunning | Drain | StopAgent | actions.Order
FromAgent = (
    Opened | Claimed | SignalReceived | Output | Written | Used | Gone
    | events.OfAttempt | events.Profiled | events.Noted | events.Inspected | events.FaultTook
    | events.Impaired | events.Crashed | events.StorageFailed
)  # fmt: skip
_TO_AGENT = {kind.kind: kind for kind in typing.get_args(ToAgent)}
_FROM_AGENT = {kind.kind: kind for kind in typing.get_args(FromAgent)}


class BadMessage(ValueError):
    """Raised if the peer has sent an invalid message."""


def encode(message: ToAgent | FromAgent) -> dict[str, typing.Any]:
    """Return a message as a JSON object, such as `{"is": "Spawn", "task": "worker:1", …}`."""
    return {"is": message.kind, **wire.encode(message)}


def for_agent(message: Mapping[str, typing.Any]) -> ToAgent:
    """Parse a message from the supervisor. Raises BadMessage."""
    decoded: ToAgent = _decoded(_TO_AGENT, message)
    return decoded


def from_agent(message: Mapping[str, typing.Any]) -> FromAgent:
    """Parse a message from an agent. Raises BadMessage."""
    decoded: FromAgent = _decoded(_FROM_AGENT, message)
    return decoded


def _decoded(kinds: Mapping[str, type], message: Mapping[str, typing.Any]) -> typing.Any:
    name = message.get("is")
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise BadMessage(f"{name!r:.40} is not a message.")
    try:
        return wire.decode(kind, message)
    except (ValueError, KeyError, AttributeError, RecursionError) as error:
        raise BadMessage(f"{name}: {error!s:.200}") from None
