"""Decides whether a run's tasks are forked from a server, and how this server is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TypeGuard

from clusterkit.store.paths import RunPaths
from clusterkit.warm.fork_client import Launch
from clusterkit.warm.servable import Preload
from clusterkit.words.job import Convention, JobSpec, Servers, StartMode
from clusterkit.words.model import ProgramKind


def launch_for(job: JobSpec, paths: RunPaths) -> Launch | str | None:
    """Return how to launch a fork server for the job's most frequent task type; None if a server would not help.

    If a server would help but is not possible, return the reason. For a command, the server imports no modules. The
    server helps nevertheless, since a fork is faster than starting an interpreter to run entry.py before the command.
    """
    if job.start is StartMode.COLD or job.convention is not Convention.TENSORFLOW:
        return None
    log, environ = str(paths.path / "fork-server.log"), {**os.environ, **marks(paths)}
    if job.program.kind is ProgramKind.COMMAND and job.servers is not Servers.BUILTIN:
        return Launch(sys.executable, environ, Preload(tensorflow=False), log)
    from clusterkit.warm.python_launch import launch_for_python  # imported here, since commands do not need this module

    return launch_for_python(job, environ, log)


def marks(paths: RunPaths, task: str = "fork-server") -> dict[str, str]:
    """Return the environment variables by which `clusterkit reap` recognizes an orphaned helper process of a run."""
    return {
        "CLUSTERKIT_RUN_ID": paths.run_id,
        "CLUSTERKIT_RUN_DIR": str(paths.path),
        "CLUSTERKIT_TASK": task,
    }


def launch_to_share(preload: Sequence[str]) -> Launch:
    """Return how to launch a warm server that all runs with this process's environment share.

    The launch names no log file, since SharedServer chooses one.
    """
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    env.pop("TF_CONFIG", None)
    return Launch(sys.executable, env, Preload(tensorflow=True, modules=tuple(preload)), "")


def can_share(launch: Launch | str | None) -> TypeGuard[Launch]:
    """Return whether a warm server could serve this run. Warm servers import TensorFlow and use this interpreter."""
    return isinstance(launch, Launch) and launch.preload.tensorflow and launch.python == sys.executable
