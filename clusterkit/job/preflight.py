"""Preflight: checks the files and interpreters that a job names. The backend checks the machine or hosts."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from clusterkit.job import interpreters
from clusterkit.system.files import why_not_reached
from clusterkit.system.process import why_not_startable
from clusterkit.text.spelling import listed
from clusterkit.words.errors import BadJob
from clusterkit.words.job import JobSpec, Setup
from clusterkit.words.model import TaskType

INSTALL_TF_KERAS = "Install it in TensorFlow's version, for example: pip install 'tf_keras==2.21.*'"


def refuse_deleted_directory() -> None:
    """Raise BadJob if the current directory has been deleted, since no relative path would work."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise BadJob(["The current directory has been deleted. Change to another one."]) from None


def directory_problems(job: JobSpec) -> list[str]:
    cwds = dict.fromkeys(setup.cwd for setup in job.every_setup.values() if setup.cwd is not None)
    return [*chain.from_iterable(map(_cwd_problems, cwds)), *_checkpoint_problems(job)]


def _cwd_problems(cwd: str) -> Iterator[str]:
    if why := why_not_reached(Path(cwd)):
        yield f"The directory {cwd} for the tasks can't be used: {why}."
    elif not Path(cwd).is_dir():
        yield f"The directory {cwd} for the tasks does not exist, or is not a directory."
    elif not os.access(cwd, os.X_OK):
        yield f"The directory {cwd} for the tasks can't be used: permission denied."


def _checkpoint_problems(job: JobSpec) -> Iterator[str]:
    directory = job.checkpoint_dir
    if directory is None:
        return
    if why := why_not_reached(Path(directory)):
        yield f"The checkpoint directory {directory} can't be used: {why}."
    elif Path(directory).exists() and not Path(directory).is_dir():
        yield f"The checkpoint directory {directory} is a file."
    elif Path(directory).exists() and not os.access(directory, os.W_OK | os.X_OK):
        yield f"The checkpoint directory {directory} can't be written: permission denied."


def interpreter_problems(job: JobSpec, starts: bool = True) -> list[str]:
    """Return what is wrong with the job's interpreters and their packages.

    Unless `starts`, interpreters and packages are only looked for: an interpreter of a job file could be any program.
    """
    pythons = dict.fromkeys(setup.python for setup in job.every_setup.values())
    problems = list[str]()
    for python in pythons:
        if python is None:
            continue
        why = why_not_startable(python, {}) if starts else interpreters.why_not_found(python)
        if why is not None:
            problems.append(f"The interpreter {python} does not start: {why}.")
    return [*problems, *dict.fromkeys([*_keras_problems(job, starts), *_debugpy_problems(job, starts)])]


def _is_installed(package: str) -> bool:
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    return found is not None and found.origin is not None  # a directory without __init__.py has no origin


def tensorboard_problems() -> list[str]:
    if _is_installed("tensorboard"):
        return []
    return ["TensorBoard is not installed beside clusterkit. Install it: pip install tensorboard"]


def dashboard_problems() -> list[str]:
    missing = [name for name in ("starlette", "uvicorn", "prometheus_client") if not _is_installed(name)]
    if not missing:
        return []
    what = f"The dashboard needs {listed(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
    return [f"{what} beside clusterkit. Install it: pip install 'tf-clusterkit[dashboard]'"]


def _keras_problems(job: JobSpec, starts: bool) -> Iterator[str]:
    setups = (Setup(), *job.setups.values()) if job.keras == 2 else ()
    for whose in _interpreters_without("tf_keras", job, setups, starts):
        yield f"--keras 2 needs tf_keras, which {whose} lacks. {INSTALL_TF_KERAS}"


def _debugpy_problems(job: JobSpec, starts: bool) -> Iterator[str]:
    named = {text.partition("=")[0].partition(":")[0] for text in job.debug.editors}
    kinds = [kind for kind in TaskType if kind in named and job.counts[kind] > 0]
    setups = [job.setups.get(kind, Setup()) for kind in kinds]
    for whose in _interpreters_without("debugpy", job, setups, starts):
        yield f"--debugpy needs debugpy, which {whose} lacks. Install it: pip install 'tf-clusterkit[debugpy]'"


def _interpreters_without(package: str, job: JobSpec, setups: Iterable[Setup], starts: bool) -> Iterator[str]:
    """Describe the interpreters of these setups that lack the package."""
    for own in setups:
        python = own.python or job.setup.python
        env = {**job.setup.env, **own.env}
        if python is None or not starts:
            has = interpreters.may_import(package, python, env)
        else:
            has = _can_import(package, python, env)
        if not has:
            yield "the tasks' interpreter" if python is None else f"the interpreter {python}"


def _can_import(package: str, python: str, env: Mapping[str, str]) -> bool:
    """Ask an interpreter of the user's whether it finds a package. `-P`: not in the working directory."""
    words = [python, "-P", "-c", f"import importlib.util as u; print(u.find_spec('{package}') is None)"]
    try:
        completed = subprocess.run(words, capture_output=True, timeout=20, env={**os.environ, **env})
    except (OSError, subprocess.TimeoutExpired):
        return True  # an interpreter that does not start is reported elsewhere
    return not completed.stdout.endswith(b"True\n")
