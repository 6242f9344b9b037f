"""The checkup: all that `doctor` looks at, for the tasks that a job would have; nothing is started but trials."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clusterkit.hands.machine_facts import look_at_machine
from clusterkit.hands.packages import ask_interpreter
from clusterkit.hands.place_facts import look_at_place, look_at_ports
from clusterkit.job import preflight, resources
from clusterkit.job.gathered import Gathered
from clusterkit.job.spec import describe
from clusterkit.network.virtual import why_not
from clusterkit.rules.doctor_packages import TENSORFLOWS, has_tensorflow
from clusterkit.supervisor.prepare import gather
from clusterkit.supervisor.trial import try_job
from clusterkit.words.doctor import Facts, Interpreter, Rights
from clusterkit.words.errors import BadJob
from clusterkit.words.model import JobSpec, ProgramKind, Setup

ANY_PROGRAM = "PROGRAM"  # where none is named
WHAT_RUNS_TASKS = {"python", "env", "cwd"}  # options that say with what tasks are run, and ask about no job


def look(options: Mapping[str, Any], job_file: str | None = None, deep: bool = False) -> Facts:
    """Look at everything; `deep`: run a job too. Raises BadJob for options that no machine could satisfy."""
    given = gather(options, job_file)
    merged = given.options
    job = _job(given)
    env = {**os.environ, **job.setup.env}
    asked = job if merged.keys() - WHAT_RUNS_TASKS else None
    interpreters = tuple(_interpreters(job, "program" in merged or "module" in merged))
    first = interpreters[0]
    return Facts(
        interpreters=interpreters,
        own=next((one for one in interpreters if one.is_own), None) or _own(),
        machine=look_at_machine(env),
        ports=look_at_ports(),
        place=look_at_place(),
        rights=Rights(os.geteuid() == 0, why_not(network=True, disk=False), why_not(network=False, disk=True)),
        env=env,
        keras_backend=_keras_backend(env),
        job=asked,
        shortages=() if asked is None else tuple(resources.shortages(asked)),
        lacking=() if asked is None else tuple(preflight.with_devices(asked)[1]),
        trial=try_job(first.path, env, job.network) if deep and has_tensorflow(first) else None,
    )


def _job(given: Gathered) -> JobSpec:
    """The job, as `prepare` makes it; what is wrong with interpreters and the machine is for findings to tell."""
    named = dict(given.options)
    kind, of_program = ProgramKind.SCRIPT, list[str]()
    if not named.get("program") and not named.get("module"):
        named["program"] = ANY_PROGRAM
    else:
        kind, of_program = preflight.program_kind(named)
    job, of_job = describe(named, kind, given.wrong)
    problems = [*given.problems, *of_job, *of_program, *preflight.setup_problems(_without_python(named))]
    if problems or job is None:
        raise BadJob(problems)
    return job


def _without_python(options: Mapping[str, Any]) -> dict[str, Any]:
    tables = {name: {**table, "python": None} for name, table in options.get("task", {}).items()}
    return {**options, "python": None, "task": tables}


def _interpreters(job: JobSpec, is_named: bool) -> Iterator[Interpreter]:
    """Each interpreter once, asked as the first task that it runs would ask it."""
    seen = set()
    for kind in dict.fromkeys(task.type for task in job.tasks):
        own = job.setups.get(kind, Setup())
        python = own.python or job.setup.python or sys.executable
        if "/" in python:
            python = str(Path(python).absolute())
        if python not in seen:
            seen.add(python)
            cwd = own.cwd or job.setup.cwd
            env = {**os.environ, **job.setup.env, **own.env}
            beside = _directory_of(job, cwd or ".") if is_named else None
            yield ask_interpreter(python, env, TENSORFLOWS, beside, cwd)


def _own() -> Interpreter:
    """clusterkit's own, where no task runs with it."""
    return ask_interpreter(sys.executable, os.environ, TENSORFLOWS, None, None)


def _directory_of(job: JobSpec, cwd: str) -> str | None:
    """The directory that the program imports from first."""
    if job.program.kind is ProgramKind.COMMAND:
        return None
    is_module = job.program.kind is ProgramKind.MODULE
    return os.path.realpath(cwd) if is_module else str(Path(os.path.realpath(job.program.target)).parent)


def _keras_backend(env: Mapping[str, str]) -> str | None:
    home = env.get("KERAS_HOME") or Path(env.get("HOME") or Path.home(), ".keras")
    try:
        backend = json.loads(Path(home, "keras.json").read_text())["backend"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(backend)
