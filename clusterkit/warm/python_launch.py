"""Reads a job's Python program to choose the imports and environment variables of its fork server."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from clusterkit.check import imports
from clusterkit.check.imports import ProgramFile
from clusterkit.job.devices import usual_env
from clusterkit.job.keras import chosen_env
from clusterkit.warm.fork_client import Launch
from clusterkit.warm.own_variables import File, OwnVariables, own_variables
from clusterkit.warm.servable import Preload
from clusterkit.words.job import JobSpec, Servers, Setup, StartMode
from clusterkit.words.model import ProgramKind

CALL = Path(__file__).resolve().parents[1] / "task" / "call.py"
# Matches module names in a pickle, where a short string is preceded by its opcode (one byte) and length (one byte).
_MODULE_NAME = re.compile(rb"\x8c(.)((?:tensorflow(?:_\w+)?|keras|tf_keras)(?:\.[\w.]+)?)", re.DOTALL)


def launch_for_python(job: JobSpec, environ: Mapping[str, str], log: str) -> Launch | str | None:
    """Do the work of `launch_for` for a server that imports modules. `environ` are the server's inherited variables."""
    serves = job.servers is Servers.BUILTIN
    file, root = imports.program_of(job)
    packages = imports.packages_of(job, root)
    program = [] if job.program.kind is ProgramKind.COMMAND else imports.program_files(file, root, packages)
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


def own_variables_of(program: Sequence[ProgramFile], packages: Iterable[Path], root: Path) -> OwnVariables:
    """Return the variables that a program sets before it imports TensorFlow. `program` lists the program's files."""
    if not any(b"env" in source.text for source in program):
        return OwnVariables({})
    texts, roots = {str(source.path): source.text for source in program}, imports.import_roots(root)

    def find(name: str, importer: str) -> list[File]:
        paths = map(str, imports.files_of(name, Path(importer), roots))
        return [(path, texts[path]) for path in paths if path in texts]

    order = [path for path in map(str, packages) if path in texts]
    return own_variables([(path, texts[path]) for path in [*order, str(program[0].path)]], find)
