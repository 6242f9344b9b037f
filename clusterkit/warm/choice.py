"""Chooses whether a run's tasks start from a fork server, and which imports and variables this server needs."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeGuard

from clusterkit.check import imports
from clusterkit.check.imports import ProgramFile
from clusterkit.job.devices import usual_env
from clusterkit.job.keras import chosen_env
from clusterkit.store.paths import RunPaths
from clusterkit.warm.fork_client import Launch
from clusterkit.warm.own_variables import File, OwnVariables, own_variables
from clusterkit.warm.servable import Preload
from clusterkit.words.job import Convention, JobSpec, Servers, Setup, StartMode
from clusterkit.words.model import ProgramKind

CALL = Path(__file__).resolve().parents[1] / "task" / "call.py"
# In a pickle, a short string is preceded by its opcode and its length, each one byte long.
_MODULE_NAME = re.compile(rb"\x8c(.)((?:tensorflow(?:_\w+)?|keras|tf_keras)(?:\.[\w.]+)?)", re.DOTALL)


def launch_for(job: JobSpec, paths: RunPaths) -> Launch | str | None:
    """Return the launch of a fork server for most of the job's tasks; None if no server is useful.

    If a server is useful but not possible, return the reason. If the program is a command, the server imports nothing,
    and is useful because a fork is faster than a new interpreter that runs entry.py before the command.
    """
    if job.start is StartMode.COLD or job.convention is not Convention.TENSORFLOW:
        return None
    log, environ = str(paths.path / "fork-server.log"), {**os.environ, **marks(paths)}
    is_command, serves = job.program.kind is ProgramKind.COMMAND, job.servers is Servers.BUILTIN
    if is_command and not serves:
        return Launch(sys.executable, environ, Preload(tensorflow=False), log)
    file, root = imports.program_of(job)
    packages = imports.packages_of(job, root)
    program = [] if is_command else imports.program_files(file, root, packages)
    warm = job.start is StartMode.WARM or serves  # built-in servers (`serves`) import TensorFlow
    tensorflow = warm or imports.imports_tensorflow(program) or _calls_tensorflow(job, file)
    if not tensorflow and not job.preload:
        return None
    most = Counter(task.type for task in job.tasks).most_common(1)[0][0]
    own_setup = job.setups.get(most, Setup())
    env = {
        **environ,
        "PYTHONUNBUFFERED": "1",
        **usual_env(job.devices),
        **job.setup.env,
        **own_setup.env,
        **chosen_env(job),
    }
    env.pop("TF_CONFIG", None)
    variables = own_variables_of(program, packages, root)
    if variables.unclear and job.start is not StartMode.WARM:
        return variables.unclear
    python = own_setup.python or job.setup.python or sys.executable
    return Launch(python, env, Preload(tensorflow, job.preload, str(root)), log, variables.effective(env))


def _calls_tensorflow(job: JobSpec, file: Path | None) -> bool:
    if file != CALL or not job.program.args:
        return False
    try:
        pickled = Path(job.program.args[0]).read_bytes()
    except OSError:
        return False
    return any(len(name) == size[0] for size, name in _MODULE_NAME.findall(pickled))


def marks(paths: RunPaths) -> dict[str, str]:
    """Return the environment variables that identify a run's fork server, so that `reap` can find an orphaned one."""
    return {
        "CLUSTERKIT_RUN_ID": paths.run_id,
        "CLUSTERKIT_RUN_DIR": str(paths.path),
        "CLUSTERKIT_TASK": "fork-server",
    }


def launch_to_share(preload: Sequence[str]) -> Launch:
    """Return the launch of a warm server for all runs with this process's environment. Its log file is still unset."""
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    env.pop("TF_CONFIG", None)
    return Launch(sys.executable, env, Preload(tensorflow=True, modules=tuple(preload)), "")


def can_share(launch: Launch | str | None) -> TypeGuard[Launch]:
    """Return whether a warm server could serve a run with this launch."""
    return isinstance(launch, Launch) and launch.preload.tensorflow and launch.python == sys.executable


def own_variables_of(program: Sequence[ProgramFile], packages: Iterable[Path], root: Path) -> OwnVariables:
    """Return the variables that a program sets before its imports. `program` is the result of `program_files`."""
    if not any(b"env" in source.text for source in program):
        return OwnVariables({})
    texts, roots = {str(source.path): source.text for source in program}, imports.import_roots(root)

    def find(name: str, importer: str) -> list[File]:
        paths = map(str, imports.files_of(name, Path(importer), roots))
        return [(path, texts[path]) for path in paths if path in texts]

    order = [path for path in map(str, packages) if path in texts]
    return own_variables([(path, texts[path]) for path in [*order, str(program[0].path)]], find)
