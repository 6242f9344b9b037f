"""Preflight: what can be seen to be wrong before anything starts."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clusterkit.hands.network import why_not
from clusterkit.hands.process import runs
from clusterkit.rules.aim import needs_disk
from clusterkit.rules.faults import parse_fault
from clusterkit.words.model import JobSpec, Network, ProgramKind

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
    is_command = os.access(path, os.X_OK) and not _is_python(path)
    return (ProgramKind.COMMAND if is_command else ProgramKind.SCRIPT), []


def setup_problems(options: Options) -> list[str]:
    """What is wrong with directories and interpreters, each said once."""
    problems: dict[str, None] = {}
    tables = [options, *options.get("task", {}).values()]
    for table in tables:
        if (cwd := table.get("cwd")) is not None and not Path(cwd).is_dir():
            problems[f"The directory {cwd} for the tasks does not exist, or is none."] = None
        if (python := table.get("python")) is not None and (why := runs(python, {})):
            problems[f"The interpreter {python} does not start: {why}."] = None
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
    if needs_disk([parse_fault(text) for text in job.faults]) and (why := why_not(network=False, disk=True)):
        problems.append(f"The fault disk-full can't be had here: {why}.")
    if job.pcap is not None and not os.access(Path(job.pcap).absolute().parent, os.W_OK | os.X_OK):
        problems.append(f"--pcap {job.pcap} can't be written: its directory does not exist, or can't be written.")
    return problems


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
    with path.open("rb") as file:
        first = file.readline(200)
    return first.startswith(b"#!") and b"python" in first
