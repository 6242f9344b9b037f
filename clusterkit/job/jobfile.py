"""The job file: TOML whose keys are the names of `up`'s flags, checked against a schema."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from clusterkit.job.gathered import Gathered
from clusterkit.words.durations import seconds
from clusterkit.words.errors import BadJob
from clusterkit.words.job import Network, RestartPolicy, RestartScope, Servers, StartMode
from clusterkit.words.model import TaskType


def _scalar_text(value: object) -> object:
    """Let `LEVEL = 3` stand in an env table; everything else has to be a string already."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _zero_or_one(value: object) -> bool:
    """Both `evaluator = true` and `evaluator = 1` are how people write it."""
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise ValueError("it has to be true, false, 0 or 1")


Duration = Annotated[float, BeforeValidator(seconds)]
Text = Annotated[StrictStr, BeforeValidator(_scalar_text)]
Count = Annotated[StrictInt, Field(ge=0)]
ZeroOrOne = Annotated[bool, BeforeValidator(_zero_or_one)]


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=_kebab)


class TaskTable(_Table):
    """`[task.worker]`: what is different for one task type."""

    env: dict[str, Text] = {}
    cwd: StrictStr | None = None
    args: list[Text] | None = None
    python: StrictStr | None = None


class JobFile(_Table):
    """A whole job file. Every key is optional."""

    program: StrictStr | None = None
    module: StrictStr | None = None
    args: list[Text] | None = None
    workers: Count | None = None
    ps: Count | None = None
    chief: ZeroOrOne | None = None
    evaluator: ZeroOrOne | None = None
    env: dict[str, Text] | None = None
    cwd: StrictStr | None = None
    python: StrictStr | None = None
    task: dict[TaskType, TaskTable] | None = None
    restart: RestartPolicy | None = None
    restart_budget: Count | None = None
    restart_backoff: Duration | None = None
    restart_backoff_max: Duration | None = None
    restart_scope: RestartScope | None = None
    grace_period: Duration | None = None
    startup_timeout: Duration | None = None
    stall_warning: Duration | None = None
    stall_timeout: Duration | None = None
    timeout: Duration | None = None
    checkpoint_dir: StrictStr | None = None
    resume: StrictStr | None = None
    progress_regex: StrictStr | None = None
    start: StartMode | None = None
    preload: list[StrictStr] | None = None
    fault: list[StrictStr] | None = None
    seed: Count | None = None
    network: Network | None = None
    pcap: StrictStr | None = None
    servers: Servers | None = None
    keras: Literal[2, 3] | None = None
    keras_fix: ZeroOrOne | None = None
    cpus_per_task: Count | None = None
    gpus_per_task: Count | None = None
    tensorboard: ZeroOrOne | None = None


def read_job_file(text: str, name: str) -> Gathered:
    """Read a job file into the options it gives, with paths made relative to the file's directory.

    `name` is the file's path, for messages. Raises BadJob where nothing in it can be read.
    """
    try:
        table = tomllib.loads(text)
    except ValueError as error:  # a TOMLDecodeError is one, and so is a number of thousands of digits
        raise BadJob([f"{name} is not valid TOML: {error}."]) from None
    except RecursionError:
        raise BadJob([f"{name} can't be read: its tables or arrays are nested too deeply."]) from None
    problems, wrong = list[str](), set[str]()
    try:
        job = JobFile.model_validate(table)
    except ValidationError as error:
        problems = [_problem(name, dict(e)) for e in error.errors()]
        wrong = {str(e["loc"][0]) for e in error.errors()}
        job = JobFile.model_validate({key: value for key, value in table.items() if key not in wrong})
    options = {key: value for key, value in job.model_dump().items() if value is not None}
    names = frozenset(key.replace("-", "_") for key in wrong)
    return Gathered(_from_the_file(options, PurePosixPath(name).parent), problems, names)


def _from_the_file(options: dict[str, Any], here: PurePosixPath) -> dict[str, Any]:
    for key in ("program", "cwd", "checkpoint_dir", "pcap"):
        if key in options:
            options[key] = str(here / options[key])
    for table in options.get("task", {}).values():
        if table["cwd"] is not None:
            table["cwd"] = str(here / table["cwd"])
    for table in (options, *options.get("task", {}).values()):
        python = table.get("python") or ""
        if "/" in python and not python.startswith("/"):  # one without a slash is looked up in PATH
            table["python"] = f"{here}/{python}"
    return options


def _problem(name: str, error: dict[str, Any]) -> str:
    place = ".".join(str(part) for part in error["loc"] if part != "[key]")
    if error["type"] == "extra_forbidden":
        known = [_kebab(key) for key in (TaskTable if place.startswith("task.") else JobFile).model_fields]
        close = difflib.get_close_matches(place.rsplit(".", 1)[-1], known, 1)
        hint = f"Did you mean {close[0]}?" if close else f"The keys are {', '.join(known)}."
        return f"{name}: there is no key {place}. {hint}"
    if error["loc"][:1] == ("task",) and error["loc"][-1] == "[key]":
        return f"{name}: {place} is not a task type. The types are {', '.join(TaskType)}."
    message = error["msg"].removeprefix("Value error, ").rstrip(".")
    return f"{name}: {place}: {message[:1].lower() + message[1:]}."
