"""Finds out the kind of a job's program, checks that the program can run, and removes a leading `python`."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

from clusterkit.job.options import GivenOptions, JobOptions
from clusterkit.system.files import why_not_reached
from clusterkit.text.spelling import closest
from clusterkit.words.job import JobSpec, TfConfig
from clusterkit.words.model import ProgramKind

_INTERPRETER = re.compile(r"python(?:3(?:\.\d+)?)?")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_MAIN = {"job.toml": "Name its job file: -f ", **dict.fromkeys(("__main__.py", "train.py", "main.py"), "")}


def without_interpreter(given: GivenOptions) -> GivenOptions:
    """Remove `python` or `python -u` in front of a program, as in `python -u train.py`, and add a note."""
    python, args = str(given.options.get("program", "")), list(given.options.get("args", ()))
    if not _INTERPRETER.fullmatch(Path(python).name) or ("/" not in python and Path(python).is_file()):
        return given
    is_own = _is_this_interpreter(python)
    if is_own is None:
        return given
    options = {name: value for name, value in given.options.items() if name not in ("program", "args")}
    head = 1 if args[:1] == ["-u"] else 0
    typed, first = " ".join([python, *args[:head]]), args[head] if args[head:] else "-"
    if first in ("-", "-i"):
        why = f"{python} is given without a program. Tasks have no standard input to read one from."
        return GivenOptions(cast(JobOptions, options), [*given.problems, why], given.wrong | {"program"}, given.notes)
    if first.startswith("-") and not first.startswith("-m"):
        note = f"{typed} {first} is run as a command: without warm starts, breakpoint() and stacks."
        return given._replace(notes=list(dict.fromkeys([*given.notes, note])))
    rest = args[head + 1 :]
    if first.startswith("-m"):
        program = {"module": first[2:] or (rest.pop(0) if rest else ""), "args": rest}
        named = f"-m {program['module']}"
    else:
        program, named = {"program": first, "args": rest}, first
    whose = "that of --python" if "python" in given.options else "its own interpreter"
    note = f"Leave out `{typed}`: clusterkit runs {named} with {whose}."
    if not is_own and "python" not in given.options:
        program["python"], note = (
            python,
            (f"Write an interpreter as an option: --python {python} {named}. Without it, tasks have clusterkit's own."),
        )
    return given._replace(options=cast(JobOptions, options | program), notes=[*given.notes, note])


def _is_this_interpreter(python: str) -> bool | None:
    """Return whether the command `python` runs clusterkit's own interpreter; None if the command is not found.

    If PATH has no `python` or `python3`, these commands mean clusterkit's interpreter.
    """
    path = shutil.which(python)
    if path is None:
        return True if python in ("python", "python3") else None
    own = Path(sys.executable)
    return Path(path).parent.absolute() == own.parent.absolute() and own.samefile(path)


def with_program(job: JobSpec) -> tuple[JobSpec, list[str]]:
    """Return the job with its program's kind filled in, and the problems with the program."""
    if job.program.kind is ProgramKind.MODULE:
        return job, _module_problems(job)
    target = job.program.target
    if not target:
        return job, []  # `describe` reports the missing program
    path = Path(target)
    if why := why_not_reached(path):
        return job, [f"{target} can't be read: {why}."]
    if not path.exists() and "/" not in target and shutil.which(target):
        job = replace(job, program=replace(job.program, kind=ProgramKind.COMMAND))
        return job, list(_command_problems(job))
    if not path.is_file() or not os.access(path, os.R_OK):
        return job, [_missing_file_problem(path, target)]
    is_command = not _is_python(path) and os.access(path, os.X_OK)
    kind = ProgramKind.COMMAND if is_command else ProgramKind.SCRIPT
    job = replace(job, program=replace(job.program, kind=kind))
    return job, [*_file_problems(path, target, is_command), *_command_problems(job)]


def _command_problems(job: JobSpec) -> Iterator[str]:
    """Yield a sentence for each option that has no effect if the program is a command."""
    if job.program.kind is ProgramKind.COMMAND:
        ours, debug = job.tf_config is TfConfig.OURS, job.debug
        for flag, is_given in (("--tf-config ours", ours), ("--pdb", debug.post_mortem), ("--debugpy", debug.editors)):
            if is_given:
                yield (
                    f"{flag} is for a Python program that clusterkit starts itself, but {job.program.target} is run as "
                    f"a command. Leave out {flag}."
                )


def _missing_file_problem(path: Path, target: str) -> str:
    """Return a sentence with a remedy for a program that is not a file or can't be read."""
    if path.is_dir():
        for name, what in _MAIN.items():
            if (path / name).is_file():
                return f"{target} is a directory. {what or 'Name its program: '}{path / name}"
        return f"{target} is a directory. Name the program's file, or a package with -m."
    if path.exists():
        return f"{target} can't be read: permission denied."
    if url := _URL.match(target):
        how = f": curl -LO {target}" if url[0].startswith("http") else "."
        return f"{target} is a URL. Copy the program to this machine first{how}"
    first, space, _ = target.partition(" ")
    if space and (Path(first).is_file() or shutil.which(first)):
        return f"There is no program {target!r}. Leave out the quotation marks around it."
    return f"There is no program {target}.{_searched_directory(path)}{_nearest(path)}"


def _file_problems(path: Path, target: str, is_command: bool) -> Iterator[str]:
    """Yield the reasons why a readable file can't be run."""
    first = _first_line(path)
    if path.suffix.lower() == ".ipynb":
        yield f"{target} is a notebook. Convert it to a program first: jupyter nbconvert --to script {target}"
    elif path.suffix.lower() == ".toml":
        yield f"{target} is a job file. Name it with -f: clusterkit up -f {target}"
    elif is_command and first.startswith(b"#!") and first.endswith(b"\r\n"):
        interpreter = os.fsdecode(first[2:].split()[0] if first[2:].split() else b"")
        why = f"{target} has the line ends of Windows, so the system looks for an interpreter `{interpreter}\\r`."
        yield f"{why} Convert them: sed -i 's/\\r$//' {target}"
    elif is_command and path.suffix == ".sh" and not first.startswith(b"#!"):
        yield f"{target} does not begin with a line that names its interpreter, such as #!/bin/bash."
    elif not is_command and not _is_python(path) and (path.suffix == ".sh" or first.startswith(b"#!")):
        yield f"{target} is neither executable nor a Python program: chmod +x {target}"


def _nearest(path: Path) -> str:
    """Return a question that suggests a program with a similar name in the same directory, or "" if there is none."""
    with suppress(OSError, ValueError):
        names = [file.name for file in path.parent.iterdir() if file.suffix in (".py", ".sh")]
        if found := closest(path.name, names) or closest(f"{path.name}.py", names):
            return f" Did you mean {path.parent / found}?"
    return ""


def _searched_directory(path: Path) -> str:
    """Return a sentence that names the searched directory, or "" for an absolute path."""
    if path.is_absolute():
        return ""
    return f" It was looked for in {Path.cwd() / path.parent}{' and in PATH' if path.parent == Path() else ''}."


def _module_problems(job: JobSpec) -> list[str]:
    if any(setup.python for setup in job.every_setup.values()):
        return []  # another interpreter may find other modules, so the module is not checked
    module = job.program.target
    top = module.partition(".")[0]
    here = str(Path(job.setup.cwd or ".").absolute())
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
