"""The house rules, held over the syntax trees: rooms import only downward, files and functions stay small.

Each rule is one test, which names all files that break it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import get_args

import pytest

from clusterkit.engines.base import Engine, engine_named
from clusterkit.engines.options import EngineName
from tests.rooms import IMPURE, INSIDE, PURE, ROOMS
from tests.syntax import ROOT, read, short

PACKAGE = ROOT / "clusterkit"
LONGEST_FUNCTION, MOST_PARAMETERS = 45, 6
PORTS = {"Attempt", "Goodput", "Startup"}  # classes of the ledger that the page or the Python API has in its own form
TOP = {
    *("benchmarks", "clusterkit", "docs", "tests", "workloads", ".ci", ".gitignore", "pyproject.toml", "Makefile"),
    *("README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE"),
}


def files_of(*places: str) -> list[Path]:
    """Python files below the repository's directories."""
    return sorted(path for place in places for path in (ROOT / place).rglob("*.py"))


MODULES = [path for path in files_of("clusterkit") if "starter" not in path.parts]  # templates of `init`: users' code
EVERYTHING = files_of("benchmarks", "clusterkit", "workloads", "tests")
TESTS = [path for path in files_of("tests") if path.name.startswith("test_")]
UNIT_TESTS = [path for path in TESTS if not re.search(r"pytest\.mark\.(process|tensorflow)\b", path.read_text())]


def breaches(paths: Iterable[Path], breach: Callable[[Path], object]) -> dict[str, object]:
    """What is wrong with each file with which something is."""
    return {short(path): found for path in paths if (found := breach(path))}


def name_of(path: Path) -> str:
    """`job/spec` for clusterkit/job/spec.py."""
    return str(path.relative_to(PACKAGE).with_suffix(""))


def room_of(path: Path) -> str:
    """`job` for clusterkit/job/spec.py, `__main__` for clusterkit/__main__.py; a file or inner folder may be a room."""
    inner = "/".join(name_of(path).split("/")[:2])
    return inner if inner in ROOMS else inner.split("/")[0]


def is_in(path: Path, places: Collection[str]) -> bool:
    """Whether a file is one of the rooms or modules, or lies in one."""
    return any(f"{name_of(path)}/".startswith(f"{place}/") for place in places)


def rooms_imported(path: Path) -> set[str]:
    """The rooms that a file imports from, its own left out; `__init__` for the package's own names."""
    names = [name.split(".")[1:] for name in read(path).imports if name.startswith("clusterkit.")]
    rooms = {"/".join(name[:2]) if "/".join(name[:2]) in ROOMS else name[0] for name in names}
    known = {room if (PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").is_file() else "__init__" for room in rooms}
    return known - {room_of(path)}


def top_names(path: Path) -> set[str]:
    """The packages that a file imports from."""
    return {name.split(".")[0] for name in read(path).imports}


def test_each_room_imports_only_those_below_it() -> None:
    """Also inside functions; a new room has to be put into the table."""
    assert {room_of(path) for path in MODULES} == set(ROOMS)
    assert breaches(MODULES, lambda path: rooms_imported(path) - ROOMS[room_of(path)]) == {}


def test_there_are_no_circles() -> None:
    """The rooms can be put into an order in which each imports only those before it."""
    TopologicalSorter(ROOMS).prepare()  # raises CycleError


def test_the_table_allows_nothing_that_no_file_needs() -> None:
    """What was taken out of the code goes out of the table."""
    needed: dict[str, set[str]] = {room: set() for room in ROOMS}
    for path in MODULES:
        needed[room_of(path)] |= rooms_imported(path)
    assert needed == ROOMS


def test_nothing_outside_engines_names_an_engine() -> None:
    """Their names, options and words come from the engines' table; `local` and `agents` are everyday words."""
    names = "|".join([*(name for name in get_args(EngineName) if name not in ("local", "agents")), "sbatch", "srun"])
    named = re.compile(rf"(?i)(?<![a-z])(?:{names})(?![a-z])")
    theirs = ("engines", "check/rules", "explain/rows/resolvers")  # the latter two know what users' programs say
    others = [path for path in MODULES if not is_in(path, theirs)]
    assert breaches(others, lambda path: named.findall(path.read_text())) == {}


@pytest.mark.parametrize("name", get_args(EngineName))
def test_an_engine_is_a_folder_and_a_line(name: str) -> None:
    """Its name is all that the table needs; nothing else imports what is in the folder."""
    assert isinstance(engine_named(name), Engine)
    inside = f"clusterkit.engines.{name}."
    strangers = [path for path in MODULES if not is_in(path, (f"engines/{name}",))]
    assert breaches(strangers, lambda path: [one for one in read(path).imports if one.startswith(inside)]) == {}


def test_the_readme_has_every_room() -> None:
    """Its map is the one that the code has."""
    text = (ROOT / "README.md").read_text().partition("## How it is built")[2]
    rows = [row.split("|")[1] for row in text.splitlines() if row.startswith("| `")]
    named = {name.rstrip("/").removesuffix(".py") for row in rows for name in re.findall(r"`([\w/.]+)`", row)}
    assert {room for room in ROOMS if not room.startswith("__") and "/" not in room} <= named


def test_pure_modules_import_nothing_with_effects() -> None:
    """No process, thread, socket, signal, clock, chance or system, nor a module of clusterkit that is not pure."""

    def effects(path: Path) -> set[str]:
        theirs = {short(file) for file in clusterkit_files(path) if file.stem != "__init__" and not is_in(file, PURE)}
        return top_names(path) & IMPURE | {"pathlib.Path"} & set(read(path).imports) | theirs

    assert breaches([path for path in MODULES if is_in(path, PURE)], effects) == {}


def test_words_and_what_runs_in_tasks_need_the_standard_library_only() -> None:
    """A task's interpreter may know nothing else; the words are everywhere."""
    known = {"clusterkit", *sys.stdlib_module_names}
    paths = [path for path in MODULES if is_in(path, ("words", *INSIDE))]
    assert breaches(paths, lambda path: top_names(path) - known) == {}


@pytest.mark.parametrize(
    ("package", "rooms"),
    [
        ("click", {"cli"}),
        ("pytest", {"pytest_plugin"}),
        ("tensorflow", {"training", "task"}),
        ("keras", {"training", "task"}),
        ("tensorboard", {"tensorboard"}),
        ("cryptography", {"backends/link"}),
        ("yaml", {"engines"}),
        ("starlette", {"page"}),
        ("uvicorn", {"page"}),
        ("prometheus_client", {"page"}),
    ],
)
def test_a_package_is_known_to_few_rooms(package: str, rooms: set[str]) -> None:
    """click to cli, pytest to the plugin, TensorFlow to what runs inside the tasks; not even lazily elsewhere."""
    assert {room_of(path) for path in MODULES if package in top_names(path)} <= rooms


def test_what_brings_a_job_up_loads_no_tensorflow() -> None:
    """Everything that launch and up import, and what that imports, is free of it."""
    found, new = set[Path](), {PACKAGE / "supervisor/launch.py", PACKAGE / "supervisor/up.py"}
    while new:
        found |= new
        new = {file for path in new for file in clusterkit_files(path)} - found
    assert len(found) > 30, "the imports are not followed"
    for path in found:
        assert top_names(path) & {"tensorflow", "keras", "numpy", "sklearn"} == set(), short(path)
        assert room_of(path) != "training"


def clusterkit_files(path: Path) -> Iterator[Path]:
    """The files of clusterkit that a file imports."""
    for name in read(path).imports:
        parts = name.split(".")
        if parts[0] == "clusterkit":
            bases = [PACKAGE.joinpath(*parts[1:]), PACKAGE.joinpath(*parts[1:-1])]
            candidates = [c for base in bases for c in (base.with_suffix(".py"), base / "__init__.py")]
            yield from (c for c in candidates if c.is_file())


def test_backends_do_not_know_each_other() -> None:
    """A backend imports the contract, and no other one."""

    def others(path: Path) -> list[str]:
        known = [name for name in read(path).imports if name.startswith("clusterkit.backends.")]
        return [
            name for name in known if not name.startswith(("clusterkit.backends.base", "clusterkit.backends.local"))
        ]

    assert breaches([path for path in MODULES if is_in(path, ("backends/local",))], others) == {}


@pytest.mark.parametrize("name", ["restart", "blame", "recovery"])
def test_restart_and_blame_know_nothing_of_injected_faults(name: str) -> None:
    """An injected exit is dealt with as a real one, or fault experiments would lie."""
    tree = ast.parse((PACKAGE / f"machine/{name}.py").read_text())
    kinds = ast.alias | ast.Name | ast.Attribute | ast.arg | ast.Constant
    said = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    assert not [text for text in said if re.search(r"(?i)(?<!de)fault|inject|chaos", text)]


def test_functions_stay_small() -> None:
    """No function past 45 lines. A file ends where its noun ends."""

    def too_long(path: Path) -> list[str]:
        return [f"{one.name}(): {one.lines} lines" for one in read(path).functions if one.lines > LONGEST_FUNCTION]

    assert breaches(EVERYTHING, too_long) == {}


def test_functions_have_few_parameters() -> None:
    """No more than six; a command of click has one for each of its options."""
    paths = [path for path in MODULES if room_of(path) != "cli"]

    def too_many(path: Path) -> list[str]:
        return [one.name for one in read(path).functions if one.parameters > MOST_PARAMETERS]

    assert breaches(paths, too_many) == {}


def test_a_class_name_stands_once() -> None:
    """A reader who searches for a class finds one, and the ports of the same idea."""
    counted = Counter(name for path in MODULES for name in read(path).classes)
    assert {name for name, times in counted.items() if times > 1} == PORTS


def test_every_module_has_a_docstring() -> None:
    """A new reader learns from its first line what a file is for."""
    assert [short(path) for path in MODULES if path.name != "__init__.py" and not read(path).documented] == []


def test_every_unit_test_says_what_it_is_for() -> None:
    """One sentence of docstring each."""

    def silent(path: Path) -> list[str]:
        return [one.name for one in read(path).functions if one.name.startswith("test_") and not one.documented]

    assert breaches(UNIT_TESTS, silent) == {}


def test_commands_print_through_one_place() -> None:
    """cli/terminal.py makes text printable; whoever prints past it lets a task's escape sequences through."""
    printing = {"print", "click.echo", "click.secho", "sys.stdout.write"}
    paths = [path for path in MODULES if room_of(path) == "cli" and path.name != "terminal.py"]
    assert breaches(paths, lambda path: read(path).calls & printing) == {}


def test_nothing_else_lies_at_the_top() -> None:
    """What a test has written into the checkout must not be committed."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip(f"no git checkout here: {listed.stderr.strip()}")
    assert {line.partition("/")[0] for line in listed.stdout.splitlines()} <= TOP
