"""The keywords of `Cluster`, and the one place where they become flags of `up`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict, TypeVar

from clusterkit.job.handed import Handed
from clusterkit.job.spec import UNFIT
from clusterkit.words.errors import BadJob
from clusterkit.words.secrets import looks_secret

T = TypeVar("T")
Path = str | os.PathLike[str]
Duration = float | str  # seconds, or "1m30s"


class Options(TypedDict, total=False):
    """What a job is, apart from its program: the flags of `clusterkit up`, under the same names."""

    file: Path  # a job file; keywords override it
    module: str  # runs `python -m MODULE` in place of a program
    workers: int
    ps: int
    chief: bool
    evaluator: bool
    env: Mapping[str, object]
    cwd: Path
    python: Path
    restart: str
    restart_budget: int
    restart_backoff: Duration
    restart_backoff_max: Duration
    restart_scope: str
    grace_period: Duration
    startup_timeout: Duration
    stall_warning: Duration
    stall_timeout: Duration
    timeout: Duration  # of the whole job
    run_id: str
    checkpoint_dir: Path
    resume: str
    progress_regex: str
    start: str  # auto, warm, cold
    preload: Sequence[str]
    fault: str | Sequence[str]
    seed: int
    network: str  # host, virtual
    pcap: Path
    servers: str  # program, builtin
    keras: int  # 2, 3
    keras_fix: bool
    cpus_per_task: int
    gpus_per_task: int
    tensorboard: bool


__tracebackhide__ = True  # a test that fails here is to show its own line
SWITCHES = ("chief", "evaluator", "keras_fix", "tensorboard")


def check_names(options: Mapping[str, Any]) -> None:
    """Raise TypeError for a keyword that is no option."""
    for name in options:
        if name not in Options.__annotations__:
            close = difflib.get_close_matches(name, Options.__annotations__, 1)
            hint = f"Did you mean {close[0]}?" if close else f"The options are {', '.join(Options.__annotations__)}."
            raise TypeError(f"Cluster has no option {name!r}. {hint}")


class Invocation(NamedTuple):
    """A `clusterkit up` that is about to be started: the words after it, and what is handed to it beside them."""

    words: list[str]
    handed: Handed


def invocation(
    program: str | None, args: Sequence[object], options: Mapping[str, Any], found: Sequence[str] = ()
) -> Invocation:
    """The job as `up` takes it. Options that are None are as if they were not given.

    What can't be a flag is a problem, beside those that were `found` before. `up` adds its own and tells all at once.
    """
    given = {name: value for name, value in options.items() if value is not None}
    problems = list(found)
    if program is not None and given.pop("module", None) is not None:
        problems.append("Give a program or module=, not both.")
    if program is None and args and "module" not in given:
        problems.append("There are args, but no program that they could be for.")
        args = ()
    env = _collected(_variables, given.pop("env", {}), problems)
    words = [flag for name, value in given.items() for flag in _collected(_flags, (name, value), problems)]
    words += ["--", *([] if program is None else [program]), *map(_text, args)]
    if any(map(UNFIT.search, words)):
        problems.append("A NUL character or half a character can't be part of a program's arguments or options.")
    return Invocation([UNFIT.sub("\ufffd", word) for word in words], Handed(dict(env), problems))


def env_flags(env: Mapping[str, str]) -> list[str]:
    """The environment as flags for people to type; what looks like a secret is to come from their own environment."""
    return [f"--env={name}" if looks_secret(name) else f"--env={name}={value}" for name, value in env.items()]


def _collected(make: Callable[[Any], Iterator[T]], value: Any, problems: list[str]) -> list[T]:
    """What is made of a value; where nothing can be, the problem is noted."""
    try:
        return list(make(value))
    except BadJob as error:
        problems += error.problems
        return []


def _variables(env: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(env, Mapping):
        raise BadJob([f"env={env!r}: it has to be a mapping, such as env={{'OMP_NUM_THREADS': 1}}."])
    if wrong := [name for name in env if not isinstance(name, str) or not name or "=" in name]:
        raise BadJob([f"env: {name!r} can't be the name of a variable." for name in wrong])
    yield from ((name, _text(value)) for name, value in env.items())


def _flags(option: tuple[str, Any]) -> Iterator[str]:
    name, value = option
    flag = f"--{name.replace('_', '-')}"
    if name in SWITCHES:
        if value not in (True, False):  # 0 and 1 too, as in a job file
            raise BadJob([f"{name}={value!r}: it has to be True or False, since a cluster has at most one."])
        yield flag if value else f"--no-{name}"
    elif name == "preload":
        if isinstance(value, str):
            raise BadJob([f"preload={value!r}: it has to be a list of module names, such as ['pandas']."])
        yield from (f"{flag}={_text(module)}" for module in value)
    elif name == "fault":
        yield from (f"{flag}={_text(fault)}" for fault in ([value] if isinstance(value, str) else value))
    else:
        yield f"{flag}={_text(value)}"  # with =, or a value that begins with a dash would be a flag


def _text(value: object) -> str:
    return os.fspath(value) if isinstance(value, str | os.PathLike) else str(value)
