"""`clusterkit init`: writes the files of a new project."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import click

from clusterkit.cli.help import Command, Parsed, option
from clusterkit.cli.terminal import echo
from clusterkit.examples import example_directory
from clusterkit.system.files import why_not_reached
from clusterkit.text.printable import printable
from clusterkit.text.spelling import closest
from clusterkit.words.errors import ClusterkitError

STARTER = Path(__file__).parents[2] / "starter"
FILES = ("job.toml", "train.py", "test_train.py")
PACKAGES = {"sklearn": "scikit-learn"}  # maps module names to package names, if the two differ
_RUN = re.compile(r"^ {4}(clusterkit up (?:.* )?)workloads/(\w+\.py.*)$", re.M)  # a command in an example's docstring


class CannotWriteFiles(ClusterkitError):
    """Raised if the files can't be written. The command then leaves none of them behind."""

    exit_code = 2


def _example(text: str) -> str:
    """Check the name of an example program, which may end in `.py`."""
    name, known = text.removesuffix(".py"), dict(examples())
    if name not in known:
        close = closest(name, known)
        hint = f" Did you mean {close}?" if close else ""
        raise ValueError(f"There is no example {name!r}. There are {', '.join(known)}.{hint}")
    return name


@click.command(
    "init",
    cls=Command,
    examples=(
        ("init my-project", "job.toml, train.py and test_train.py."),
        ("init --example ps_train", "An example program, and the modules that it needs."),
    ),
)
@click.argument("given", default=".", metavar="[DIR]")
@option(
    "--example",
    type=Parsed("name", _example),
    help="Copy this example program instead.",
    shell_complete=lambda ctx, param, begin: [name for name, _ in examples() if name.startswith(begin)],
)
def command(given: str, example: str | None) -> None:
    """Write a job file, a small program and a test of the program into DIR. Existing files are not changed."""
    if not given:
        raise CannotWriteFiles("DIR is empty. Name a directory, or leave it out to write here.")
    directory = Path(given)
    if example is None:
        files = {name: (STARTER / name).read_bytes() for name in FILES}
        commands, missing = ["clusterkit up -f job.toml", "clusterkit exam -f job.toml", "pytest"], list[str]()
    else:
        files, missing = _files_of(example)
        commands = dict(examples())[example]
    write(directory, files)
    change = [] if directory == Path() else [f"cd {shlex.quote(str(directory))}"]
    echo(printable(f"Wrote {', '.join(files)} {f'to {directory}' if change else 'here'}. Try it:"))
    echo("".join(f"    {printable(line)}\n" for line in [*change, *commands]), nl=False)
    if missing:
        packages = " ".join(PACKAGES.get(name, name) for name in missing)
        are = "is" if len(missing) == 1 else "are"
        echo(f"It imports {', '.join(missing)}, which {are} not installed here: pip install {packages}", err=True)


def examples() -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each example program, and the commands in its docstring."""
    for path in sorted(example_directory().glob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_bytes()), clean=False) or ""
        if commands := [before + after for before, after in _RUN.findall(text)]:
            yield path.stem, commands


def _files_of(example: str) -> tuple[dict[str, bytes], list[str]]:
    """Return an example with the modules that it imports from its directory, and the names of missing packages."""
    from clusterkit.check.imports import program_files

    place = example_directory()
    found = [source for source in program_files(place / f"{example}.py", place) if source.path.parent == place]
    modules = {source.path.stem for source in found}
    others = {name.partition(".")[0] for source in found for name in source.names} - modules
    missing = sorted(name for name in others if importlib.util.find_spec(name) is None)
    return {source.path.name: source.text for source in found}, missing


def write(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write either all files or none into a directory, which is created if needed. Raises CannotWriteFiles."""
    if why := why_not_reached(directory):
        raise CannotWriteFiles(f"{directory} can't be written: {why}.")
    there = [str(directory / name) for name in files if os.path.lexists(directory / name)]
    if there:
        exist = "exists" if len(there) == 1 else "exist"
        raise CannotWriteFiles(f"{', '.join(there)} already {exist}. Nothing was written; choose another directory.")
    if directory.exists() and not directory.is_dir():
        raise CannotWriteFiles(f"{directory} is not a directory.")
    written = list[Path]()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            with (directory / name).open("xb") as file:
                written.append(directory / name)
                file.write(content)
    except OSError as error:
        for path in written:
            with suppress(OSError):
                path.unlink()
        raise CannotWriteFiles(f"{error.filename or directory} can't be written: {error.strerror}.") from None
