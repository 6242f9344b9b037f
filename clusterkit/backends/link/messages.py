"""The messages between supervisor and agent: orders and events as they are, and messages about the host itself."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass

from clusterkit.words import actions, events, wire
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task

# From the supervisor to an agent.


@dataclass(frozen=True, slots=True)
class Open:
    """Prepare for a run, whose directory, checkpoints and working directory all hosts share; answered by Opened."""

    run_id: str
    run_directory: str
    checkpoints: str
    cwd: str
    token: str  # in the file by which an agent recognizes the shared directories: see fitness.py
    seed: int
    job: JobSpec


@dataclass(frozen=True, slots=True)
class Claim:
    """Hold ports for these tasks, none of which runs; answered by Claimed."""

    tasks: tuple[Task, ...]
    here: tuple[Task, ...] = ()  # all for which the host needs room; if empty, `tasks`


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where each task of the job listens. Comes before the first start."""

    endpoints: Mapping[Task, str]


@dataclass(frozen=True, slots=True)
class Shut:
    """End whatever is left of the run; answered by Gone. If it is not `over`, an agent is needed here again."""

    over: bool = True


@dataclass(frozen=True, slots=True)
class KeepRunning:
    """Continue and wait for orders: the signal is for the whole run, and the supervisor handles it."""


@dataclass(frozen=True, slots=True)
class Drain:
    """The signal is for this agent alone. Its tasks are being ended, to move to other hosts; StopAgent follows."""


@dataclass(frozen=True, slots=True)
class StopAgent:
    """End the agent: nothing of the run is left on its host."""


# From an agent to the supervisor.


@dataclass(frozen=True, slots=True)
class Opened:
    """The host is ready, or has problems."""

    problems: tuple[str, ...]
    address: str = ""  # the address from which it reaches the supervisor
    delay: float = 0.0  # seconds until it saw a file of the supervisor's


@dataclass(frozen=True, slots=True)
class Claimed:
    """The ports of the tasks that were asked for, or why there are none."""

    ports: Mapping[Task, int]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class SignalReceived:
    """A signal asks the agent to end; answered by KeepRunning, or by Drain and then StopAgent."""

    signal: int


@dataclass(frozen=True, slots=True)
class Output:
    """A part of an attempt's log, at wall time `at`; the bytes are the message's body."""

    task: Task
    attempt: int
    at: float


@dataclass(frozen=True, slots=True)
class Written:
    """A part of a file of the run directory, such as a stack dump, from `offset` on; `name` is its path there."""

    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class Gone:
    """Nothing of the run is left on this host."""


ToAgent = Open | Claim | Endpoints | Shut | KeepRunning | Drain | StopAgent | actions.Order
FromAgent = (
    Opened | Claimed | SignalReceived | Output | Written | Gone
    | events.OfAttempt | events.Profiled | events.Noted | events.Inspected | events.FaultTook
    | events.Impaired | events.Crashed | events.StorageFailed
)  # fmt: skip
_TO_AGENT = {kind.__name__: kind for kind in typing.get_args(ToAgent)}
_FROM_AGENT = {kind.__name__: kind for kind in typing.get_args(FromAgent)}


class BadMessage(ValueError):
    """The other side sent an invalid message."""


def encode(message: ToAgent | FromAgent) -> dict[str, typing.Any]:
    """Return a message as JSON: `{"is": "Spawn", "task": "worker:1", …}`."""
    return {"is": type(message).__name__, **wire.encode(message)}


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
