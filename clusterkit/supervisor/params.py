"""Checks the parameters of a request on the control socket: their types and bounds."""

from __future__ import annotations

from typing import Any

from clusterkit.words.events import Requested, Verb
from clusterkit.words.model import Task
from clusterkit.words.protocol import INVALID_PARAMS, Call, RpcError

LONGEST_PROFILE = 3600.0  # seconds
LONGEST_NAME = 40  # characters of a task's name; evaluator:4095 has 14
MOST = 1 << 63  # steps are below it


def requested(number: int, call: Call) -> Requested:
    """Convert a call, the run's `number`th request, to an event. Raises RpcError."""
    params = call.params
    signal, steps, seconds = params.get("signal", 9), params.get("steps", 20), params.get("seconds", 30)
    force, fault = params.get("force", False), params.get("fault", "")
    if not _is_count(signal, 1, 65):
        raise _wrong(call, f"{_shown(signal)} is not a signal.")
    if not (_is_count(steps, 1, MOST) and type(seconds) in (int, float) and 0 < seconds <= LONGEST_PROFILE):
        raise _wrong(call, f"A profile is of 1 step or more, and of {LONGEST_PROFILE:g} s at most.")
    if not isinstance(fault, str):
        raise _wrong(call, "`fault` is a string, such as 'kill worker:1'.")
    if not isinstance(force, bool):
        raise _wrong(call, "`force` is true or false.")
    return Requested(number, Verb(call.method), _tasks(call), signal, force, fault, steps, float(seconds))


def _tasks(call: Call) -> tuple[Task, ...]:
    names = call.params.get("tasks", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _wrong(call, '`tasks` is a list of names, such as ["worker:1"].')
    if any(len(name) > LONGEST_NAME for name in names):
        raise _wrong(call, "`tasks` has a name that no task can have.")
    try:
        return tuple(dict.fromkeys(map(Task.parse, names)))
    except ValueError as error:
        raise _wrong(call, str(error)) from None


def _is_count(value: Any, least: int, end: int) -> bool:
    return type(value) is int and least <= value < end


def _shown(value: Any) -> str:
    """Return an integer as text; `This` for anything else, or if it is too long to read."""
    return str(value) if _is_count(value, -MOST, MOST) else "This"


def _wrong(call: Call, problem: str) -> RpcError:
    return RpcError(INVALID_PARAMS, problem, call.id)
