"""Warming: what the run's fork server is to be, or that there is to be none."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from clusterkit.hands.imports import imports_tensorflow, module_file
from clusterkit.hands.shared import WarmPlace, warm_dir
from clusterkit.hands.warm import Launch
from clusterkit.rules.plan import RunPaths
from clusterkit.rules.warm import Preload
from clusterkit.words.model import JobSpec, ProgramKind, Setup, StartMode


def launch_for(job: JobSpec, paths: RunPaths) -> Launch | None:
    """The fork server that suits most tasks; None where each of them starts with a fresh interpreter.

    A command is forked from a server that imports nothing: that costs less than the interpreter which it takes
    otherwise to tie a command to the supervisor.
    """
    if job.start is StartMode.COLD:
        return None
    log, ours = str(paths.root / "fork-server.log"), {**os.environ, **marks(paths)}
    if job.program.kind is ProgramKind.COMMAND:
        return Launch(sys.executable, ours, Preload(tensorflow=False), log)
    file, root = _program(job)
    tensorflow = job.start is StartMode.WARM or imports_tensorflow(file, root)
    if not tensorflow and not job.preload:
        return None
    most = Counter(task.type for task in job.tasks).most_common(1)[0][0]
    own = job.setups.get(most, Setup())
    env = {**ours, "PYTHONUNBUFFERED": "1", **job.setup.env, **own.env}
    env.pop("TF_CONFIG", None)
    python = own.python or job.setup.python or sys.executable
    return Launch(python, env, Preload(tensorflow, job.preload, str(root)), log)


def _program(job: JobSpec) -> tuple[Path | None, Path]:
    """The program's file, where it can be found, and the directory from which it imports its own modules."""
    cwd = Path(job.setup.cwd or ".").absolute()
    if job.program.kind is ProgramKind.MODULE:
        return module_file(job.program.target, cwd), cwd
    file = Path(os.path.realpath(cwd / job.program.target))
    return file, file.parent


def marks(paths: RunPaths) -> dict[str, str]:
    """By which a server that outlived everything is found, as a task is."""
    return {
        "CLUSTERKIT_RUN_ID": paths.run_id,
        "CLUSTERKIT_RUN_DIR": str(paths.root),
        "CLUSTERKIT_TASK": "fork-server",
    }


def launch_to_share(preload: Sequence[str]) -> Launch:
    """The server for all runs that have this interpreter and environment. Its log is wherever its socket is."""
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    env.pop("TF_CONFIG", None)
    return Launch(sys.executable, env, Preload(tensorflow=True, modules=tuple(preload)), "")


def shared_place(launch: Launch) -> WarmPlace | None:
    """The warm server that a run with this launch can come from, where there is one."""
    if not launch.preload.tensorflow or launch.python != sys.executable:
        return None
    place = WarmPlace(warm_dir(), launch)
    return place if place.socket.exists() else None
