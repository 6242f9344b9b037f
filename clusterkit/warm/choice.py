"""Chooses whether a run forks its tasks from a fork server, and the imports and environment variables of the server."""

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
# Matches module names in a pickle: a short string follows one byte with its opcode and one byte with its length.
_MODULE_NAME = re.compile(rb"\x8c(.)((?:tensorflow(?:_\w+)?|keras|tf_keras)(?:\.[\w.]+)?)", re.DOTALL)


def launch_for(job: JobSpec, paths: RunPaths) -> Launch | str | None:
    """Return the launch of a fork server for the job's most frequent task type; None if a server would not help.

    If a server would help but is not possible, return the reason. For a command, the server imports nothing: it helps
    since a fork is faster than a new interpreter, which would have to run entry.py before the command.
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
    warm = job.start is StartMode.WARM or serves  # the built-in server imports TensorFlow
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
    """Return the environment variables by which `clusterkit reap` recognizes a run's fork server that was orphaned."""
    return {
        "CLUSTERKIT_RUN_ID": paths.run_id,
        "CLUSTERKIT_RUN_DIR": str(paths.path),
        "CLUSTERKIT_TASK": "fork-server",
    }


def launch_to_share(preload: Sequence[str]) -> Launch:
    """Return the launch, without a log file, of a warm server that all runs with this process's environment share."""
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    env.pop("TF_CONFIG", None)
    return Launch(sys.executable, env, Preload(tensorflow=True, modules=tuple(preload)), "")


def can_share(launch: Launch | str | None) -> TypeGuard[Launch]:
    """Return whether a warm server, which imports TensorFlow in this interpreter, could serve a run of this launch."""
    return isinstance(launch, Launch) and launch.preload.tensorflow and launch.python == sys.executable


def own_variables_of(program: Sequence[ProgramFile], packages: Iterable[Path], root: Path) -> OwnVariables:
    """Return the environment variables that a program sets before it imports TensorFlow. `program` has its files."""
    if not any(b"env" in source.text for source in program):
        return OwnVariables({})
    texts, roots = {str(source.path): source.text for source in program}, imports.import_roots(root)

    def find(name: str, importer: str) -> list[File]:
        paths = map(str, imports.files_of(name, Path(importer), roots))
        return [(path, texts[path]) for path in paths if path in texts]

    order = [path for path in map(str, packages) if path in texts]
    return own_variables([(path, texts[path]) for path in [*order, str(program[0].path)]], find)
