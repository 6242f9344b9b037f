"""The house rules, held over the syntax trees: rooms import only downward, files and functions stay small."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "clusterkit"
LONGEST_FILE, LONGEST_FUNCTION = 300, 45
TOP = {
    *("clusterkit", "docs", "tests", "workloads", ".ci", ".gitignore", "pyproject.toml", "Makefile"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"),
}

# Each room, and the rooms that it may import. Whoever is in a row stands above those in it: there are no circles.
ROOMS = {
    "words": set[str](),
    "task": set[str](),
    "training": set[str](),
    "system": {"words"},
    "client": {"words", "system"},
    "network": {"words", "system"},
    "faults": {"words", "system", "client", "network"},
    "machine": {"words", "faults"},
    "recovery": {"words", "client", "machine"},
    "hooks": {"words", "system", "client", "recovery", "task"},
    "job": {"words", "system", "client", "faults"},
    "check": {"words", "system", "job"},
    "warm": {"words", "system", "client", "job", "task", "check"},
    "backends": {"words", "system", "client", "network", "faults", "machine", "job", "task", "warm", "__init__"},
    "engines": {"words", "client", "job", "backends"},
    "views": {"words", "system", "client"},
    "doctor": {"words", "system", "client", "network", "job", "backends", "views"},
    "tensorboard": {"words", "system", "client", "views", "task"},
    "dashboard": {
        *("words", "system", "client", "faults", "recovery", "job", "backends", "views", "task", "__init__"),
    },
    "supervisor": {
        *("words", "system", "client", "machine", "recovery", "job", "warm", "backends", "engines"),
        *("views", "tensorboard", "dashboard", "hooks", "check", "__init__"),
    },
    "api": {"words", "system", "client", "recovery", "job", "task", "warm", "views"},
    # A campaign is a program over the Python API: it starts, shares and ends runs as a test suite does.
    "chaos": {"words", "client", "machine", "recovery", "views", "api"},
    "cli": {
        *("words", "system", "client", "network", "faults", "recovery", "job", "warm", "backends", "views"),
        *("tensorboard", "dashboard", "supervisor", "chaos", "check", "doctor", "engines", "examples", "__init__"),
    },
    "pytest_plugin": {"words", "client", "views", "api"},
    "patches": {"words", "job", "task"},
    "examples": set[str](),
    "__init__": {"words", "client", "api"},
    "__main__": {"cli"},
}
# Rules: their time, seeds and environment are arguments. They import no other modules of clusterkit than such.
PURE = (
    *("words", "machine"),
    *(f"job/{name}" for name in ("debugging", "devices", "flags", "jobfile", "jobtext", "keras", "options")),
    *(f"job/{name}" for name in ("plan", "spec", "step_regex")),
    *("job/convention", "job/tfconfig", "faults/aim", "words/grammar", "client/paths", "supervisor/params"),
    *("warm/environ_writes", "warm/own_variables", "warm/servable", "hooks/document", "hooks/moments"),
    *("backends/local/reports", "backends/local/waits"),
    *("backends/agents/frames", "backends/agents/hello", "backends/agents/session", "backends/agents/stream"),
    *(f"recovery/{name}" for name in ("incident", "report", "goodput", "conditions", "costs", "curve", "stretch")),
    *("recovery/account", "recovery/startup", "recovery/stragglers", "recovery/training_time"),
    *("chaos/invariants", "chaos/model", "chaos/schedule", "chaos/shrinking", "chaos/tally"),
    *("check/findings", "check/rules", "check/source"),
    *("doctor/diagnosis", "doctor/machine_rules", "doctor/python_rules", "doctor/rules", "doctor/text"),
    *("views/prefixed", "views/stragglers", "views/tables"),
    *(f"dashboard/{name}" for name in ("bundle", "campaigns", "entities", "markup", "trace")),
    *(f"engines/slurm/{name}" for name in ("ends", "errors", "queue", "script", "steps", "waits")),
    *(f"engines/kubernetes/{name}" for name in ("commands", "documents", "jobset", "manifest", "names", "objects")),
    *(f"engines/kubernetes/{name}" for name in ("pods", "resources", "rules", "text", "tfjob")),
)
# What runs with the interpreter of the tasks, which may know nothing of clusterkit. `task/call` is not among them: it
# reads what cloudpickle wrote, and that interpreter is the API's own.
INSIDE = (
    *("task/debug_session", "task/debugger", "task/debugger_pdb", "task/entry", "task/join", "task/patches"),
    *("warm/fork_server", "warm/fresh", "warm/importing", "warm/warm_server", "network/switch"),
)
IMPURE = {"subprocess", "threading", "socket", "signal", "time", "random", "os", "asyncio", "multiprocessing"}


def files_of(*places: str) -> list[Path]:
    """Python files below the repository's directories."""
    return sorted(path for place in places for path in (ROOT / place).rglob("*.py"))


MODULES = [path for path in files_of("clusterkit") if "starter" not in path.parts]  # templates of `init`: users' code
EVERYTHING = files_of("clusterkit", "workloads", "tests")
TESTS = [path for path in files_of("tests") if path.name.startswith("test_")]
UNIT_TESTS = [path for path in TESTS if not re.search(r"pytest\.mark\.(process|tensorflow)\b", path.read_text())]


def short(path: Path) -> str:
    """A file's name in a test's id."""
    return str(path.relative_to(ROOT))


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Every module that a file imports anywhere in it, also inside functions."""
    found = list[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{short(path)} has a relative import"
            assert node.module is not None
            found += (f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(found)


def name_of(path: Path) -> str:
    """`job/spec` for clusterkit/job/spec.py."""
    return str(path.relative_to(PACKAGE).with_suffix(""))


def room_of(path: Path) -> str:
    """`job` for clusterkit/job/spec.py, `__main__` for clusterkit/__main__.py."""
    return name_of(path).split("/")[0]


def is_in(path: Path, places: Collection[str]) -> bool:
    """Whether a file is one of the rooms or modules, or lies in one."""
    return any(f"{name_of(path)}/".startswith(f"{place}/") for place in places)


def rooms_imported(path: Path) -> set[str]:
    """The rooms that a file imports from, its own left out; `__init__` for the package's own names."""
    names = [name.split(".")[1] for name in imports_of(path) if name.startswith("clusterkit.")]
    rooms = {name if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file() else "__init__" for name in names}
    return rooms - {room_of(path)}


def top_names(path: Path) -> set[str]:
    """The packages that a file imports from."""
    return {name.split(".")[0] for name in imports_of(path)}


@pytest.mark.parametrize("path", MODULES, ids=short)
def test_each_room_imports_only_those_below_it(path: Path) -> None:
    """Also inside functions; a new room has to be put into the table."""
    allowed = ROOMS.get(room_of(path))
    assert allowed is not None, f"{short(path)} is in no room that this test knows"
    assert rooms_imported(path) <= allowed


def test_there_are_no_circles() -> None:
    """The rooms can be put into an order in which each imports only those before it."""
    TopologicalSorter(ROOMS).prepare()  # raises CycleError


def test_the_table_allows_nothing_that_no_file_needs() -> None:
    """What was taken out of the code goes out of the table."""
    needed: dict[str, set[str]] = {room: set() for room in ROOMS}
    for path in MODULES:
        needed[room_of(path)] |= rooms_imported(path)
    assert needed == ROOMS


def test_the_readme_has_every_room() -> None:
    """Its map is the one that the code has."""
    text = (ROOT / "README.md").read_text().partition("## How it is built")[2]
    rows = [row.split("|")[1] for row in text.splitlines() if row.startswith("| `")]
    named = {name.rstrip("/").removesuffix(".py") for row in rows for name in re.findall(r"`([\w/.]+)`", row)}
    assert {room for room in ROOMS if not room.startswith("__")} <= named


@pytest.mark.parametrize("path", [p for p in MODULES if is_in(p, PURE)], ids=short)
def test_pure_modules_import_nothing_with_effects(path: Path) -> None:
    """No process, thread, socket, signal, clock, chance or system, nor a module of clusterkit that is not pure."""
    assert top_names(path) & IMPURE == set()
    assert "pathlib.Path" not in set(imports_of(path))
    assert [short(file) for file in clusterkit_files(path) if file.stem != "__init__" and not is_in(file, PURE)] == []


@pytest.mark.parametrize("path", [p for p in MODULES if is_in(p, ("words", *INSIDE))], ids=short)
def test_words_and_what_runs_in_tasks_need_the_standard_library_only(path: Path) -> None:
    """A task's interpreter may know nothing else; the words are everywhere."""
    assert top_names(path) - {"clusterkit"} <= sys.stdlib_module_names


@pytest.mark.parametrize(
    ("package", "rooms"),
    [
        ("click", {"cli"}),
        ("pytest", {"pytest_plugin"}),
        ("tensorflow", {"training", "task"}),
        ("keras", {"training", "task"}),
        ("tensorboard", {"tensorboard"}),
        ("cryptography", {"backends"}),
        ("yaml", {"engines"}),
        ("starlette", {"dashboard"}),
        ("uvicorn", {"dashboard"}),
        ("prometheus_client", {"dashboard"}),
    ],
)
def test_a_package_is_known_to_few_rooms(package: str, rooms: set[str]) -> None:
    """click to cli, pytest to the plugin, TensorFlow to what runs inside the tasks; not even lazily elsewhere."""
    assert {room_of(path) for path in MODULES if package in top_names(path)} <= rooms


def test_what_brings_a_job_up_loads_no_tensorflow() -> None:
    """Everything that launch and run import, and what that imports, is free of it."""
    found, new = set[Path](), {PACKAGE / "supervisor/launch.py", PACKAGE / "supervisor/run.py"}
    while new:
        found |= new
        new = {file for path in new for file in clusterkit_files(path)} - found
    assert len(found) > 30, "the imports are not followed"
    for path in found:
        assert top_names(path) & {"tensorflow", "keras", "numpy", "sklearn"} == set(), short(path)
        assert room_of(path) != "training"


def clusterkit_files(path: Path) -> Iterator[Path]:
    """The files of clusterkit that a file imports."""
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "clusterkit":
            bases = [PACKAGE.joinpath(*parts[1:]), PACKAGE.joinpath(*parts[1:-1])]
            candidates = [c for base in bases for c in (base.with_suffix(".py"), base / "__init__.py")]
            yield from (c for c in candidates if c.is_file())


@pytest.mark.parametrize("path", [p for p in MODULES if is_in(p, ("backends/local",))], ids=short)
def test_backends_do_not_know_each_other(path: Path) -> None:
    """A backend imports the contract, and no other one."""
    known = [name for name in imports_of(path) if name.startswith("clusterkit.backends.")]
    assert [
        name for name in known if not name.startswith(("clusterkit.backends.base", "clusterkit.backends.local"))
    ] == []


@pytest.mark.parametrize("name", ["restart", "blame", "likeness", "repeats", "recovery"])
def test_restart_and_blame_know_nothing_of_injected_faults(name: str) -> None:
    """An injected exit is dealt with as a real one, or fault experiments would lie."""
    tree = ast.parse((PACKAGE / f"machine/{name}.py").read_text())
    kinds = ast.alias | ast.Name | ast.Attribute | ast.arg | ast.Constant
    said = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    assert not [text for text in said if re.search(r"(?i)(?<!de)fault|inject|chaos", text)]


@pytest.mark.parametrize("path", EVERYTHING, ids=short)
def test_files_and_functions_stay_small(path: Path) -> None:
    """One noun a file: nothing past 300 lines, no function past 45."""
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST_FILE
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION
    ]
    assert long == []


@pytest.mark.parametrize("path", MODULES, ids=short)
def test_every_module_has_a_docstring(path: Path) -> None:
    """A new reader learns from its first line what a file is for."""
    assert path.name in ("__init__.py",) or ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("path", UNIT_TESTS, ids=short)
def test_every_unit_test_says_what_it_is_for(path: Path) -> None:
    """One sentence of docstring each."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    assert [node.name for node in functions if node.name.startswith("test_") and not ast.get_docstring(node)] == []


@pytest.mark.parametrize("path", [p for p in MODULES if room_of(p) == "cli"], ids=short)
def test_commands_print_through_one_place(path: Path) -> None:
    """cli/terminal.py makes text printable; whoever prints past it lets a task's escape sequences through."""
    calls = [ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    printing = {call for call in calls if call in ("print", "click.echo", "click.secho", "sys.stdout.write")}
    assert not printing or path.name == "terminal.py"


def test_nothing_else_lies_at_the_top() -> None:
    """What a test has written into the checkout must not be committed."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip(f"no git checkout here: {listed.stderr.strip()}")
    assert {line.partition("/")[0] for line in listed.stdout.splitlines()} <= TOP
