"""Preflight: what can be seen to be wrong before anything starts."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from clusterkit.faults.aim import needs_disk
from clusterkit.job.devices import too_few
from clusterkit.job.gpus import Found, gpus_here
from clusterkit.network.virtual import why_not
from clusterkit.system.process import runs
from clusterkit.words.job import JobSpec, Network
from clusterkit.words.model import ProgramKind

Options = Mapping[str, Any]


def program_kind(options: Options) -> tuple[ProgramKind, list[str]]:
    """How the program is to be started, and what is wrong with it."""
    if module := options.get("module"):
        return ProgramKind.MODULE, _module_problems(module, options)
    target = options.get("program")
    if not target:
        return ProgramKind.SCRIPT, []  # the rules say that it is missing
    path = Path(target)
    if path.is_dir():
        return ProgramKind.SCRIPT, [f"{target} is a directory. Name the program's file, or a package with -m."]
    if not path.exists():
        if "/" not in target and shutil.which(target):
            return ProgramKind.COMMAND, []
        return ProgramKind.SCRIPT, [f"There is no program {target}."]
    if not os.access(path, os.R_OK):
        return ProgramKind.SCRIPT, [f"{target} can't be read: permission denied."]
    if _is_python(path):
        return ProgramKind.SCRIPT, []
    if os.access(path, os.X_OK):
        return ProgramKind.COMMAND, []
    if path.suffix == ".sh" or _first_line(path).startswith(b"#!"):
        return ProgramKind.COMMAND, [f"{target} can't be executed, and is no Python program: chmod +x {target}"]
    return ProgramKind.SCRIPT, []


def setup_problems(options: Options) -> list[str]:
    """What is wrong with directories and interpreters, each said once."""
    problems: dict[str, None] = {}
    tables = [options, *options.get("task", {}).values()]
    for table in tables:
        if (cwd := table.get("cwd")) is not None and not Path(cwd).is_dir():
            problems[f"The directory {cwd} for the tasks does not exist, or is none."] = None
        if (python := table.get("python")) is not None and (why := runs(python, {})):
            problems[f"The interpreter {python} does not start: {why}."] = None
    problems.update(dict.fromkeys(_keras_problems(options)))
    if (directory := options.get("checkpoint_dir")) is not None and Path(directory).exists():
        if not Path(directory).is_dir():
            problems[f"The checkpoint directory {directory} is a file."] = None
        elif not os.access(directory, os.W_OK | os.X_OK):
            problems[f"The checkpoint directory {directory} can't be written: permission denied."] = None
    return list(problems)


def network_problems(job: JobSpec) -> list[str]:
    """Why this machine can't have the network, or the full disk, that the job asks for."""
    problems = []
    if job.network is Network.VIRTUAL and (why := why_not(network=True, disk=False)):
        problems.append(f"--network virtual can't be had here: {why}.")
    if needs_disk(job.faults) and (why := why_not(network=False, disk=True)):
        problems.append(f"The fault disk-full can't be had here: {why}.")
    if job.pcap is not None and not os.access(Path(job.pcap).absolute().parent, os.W_OK | os.X_OK):
        problems.append(f"--pcap {job.pcap} can't be written: its directory does not exist, or can't be written.")
    return problems


def tensorboard_problems() -> list[str]:
    """Why clusterkit can't start TensorBoard."""
    try:
        found = importlib.util.find_spec("tensorboard")
    except (ImportError, ValueError):
        found = None
    if found is not None and found.origin is not None:  # a mere directory of that name has none
        return []
    return ["TensorBoard is not installed beside clusterkit. Install it: pip install 'clusterkit[tensorboard]'"]


def with_devices(job: JobSpec) -> tuple[JobSpec, list[str]]:
    """The job with the cores and GPUs that it hands out to its tasks, and which of them are too few."""
    asked = job.devices
    cores = () if asked.cpus is None else tuple(sorted(os.sched_getaffinity(0)))
    found = gpus_here() if asked.gpus else Found(())
    job = replace(job, devices=replace(asked, cores=cores, names=found.names))
    return job, too_few(job, found.why_none)


def _keras_problems(options: Options) -> list[str]:
    """Where Keras 2 is asked for, and the tasks' interpreter does not have it."""
    if options.get("keras") != 2:
        return []
    problems = []
    for table in ({}, *options.get("task", {}).values()):
        python = table.get("python") or options.get("python")
        env = {**(options.get("env") or {}), **(table.get("env") or {})}
        if not _has_tf_keras(python, env):
            of_whom = "the tasks' interpreter" if python is None else f"the interpreter {python}"
            problems.append(f"--keras 2 needs tf_keras, which {of_whom} lacks: pip install 'clusterkit[keras2]'.")
    return problems


def _has_tf_keras(python: str | None, env: Mapping[str, str]) -> bool:
    if python is None and "PYTHONPATH" not in env:
        return importlib.util.find_spec("tf_keras") is not None
    words = [python or sys.executable, "-c", "import importlib.util as u; print(u.find_spec('tf_keras') is None)"]
    try:
        asked = subprocess.run(words, capture_output=True, timeout=20, env={**os.environ, **env})
    except (OSError, subprocess.TimeoutExpired):
        return True  # that it does not start is told already
    return not asked.stdout.endswith(b"True\n")


def _module_problems(module: str, options: Options) -> list[str]:
    tables = [options, *options.get("task", {}).values()]
    if any(table.get("python") for table in tables):
        return []  # another interpreter finds other modules
    top = module.partition(".")[0]
    here = str(Path(options.get("cwd") or ".").absolute())
    path = sys.path
    sys.path = [here, *path]
    try:
        found = importlib.util.find_spec(top) if top.isidentifier() else None
    except (ImportError, ValueError):
        found = None
    finally:
        sys.path = path
    return [] if found else [f"There is no module {module} (searched from {here})."]


def _is_python(path: Path) -> bool:
    if path.suffix in (".py", ".pyw"):
        return True
    first = _first_line(path)
    return first.startswith(b"#!") and b"python" in first


def _first_line(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.readline(200)
