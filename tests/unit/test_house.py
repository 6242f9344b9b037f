"""The house rules, held over the syntax trees: floors import only downward, files and functions stay small."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "clusterkit"
LONGEST_FILE, LONGEST_FUNCTION = 300, 45

# What each floor may import of clusterkit: itself and what lies below it.
BELOW = {
    "words": {"words"},
    "rules": {"words", "rules"},
    "machine": {"words", "rules", "machine"},
    "barrier": {"words"},
    "hands": {"words", "rules", "barrier", "hands", "entry"},
    "check": {"words", "rules", "barrier", "hands", "check"},
    "backends": {"words", "rules", "barrier", "hands", "backends"},
    "views": {"words", "rules", "barrier", "views"},
    "supervisor": {
        "words",
        "rules",
        "machine",
        "barrier",
        "hands",
        "check",
        "backends",
        "views",
        "supervisor",
        "__init__",
    },
    # A campaign is a program over the Python API: it starts, shares and ends runs as a test suite does.
    "cli": {"words", "rules", "check", "supervisor", "hands", "views", "cli", "api", "__init__"},
    "training": {"training"},
    "switch": {"switch"},
    # A process of its own beside a run, and a client of it as any command.
    "tensorboard": {"words", "rules", "hands", "views", "tensorboard", "entry"},
    "entry": set(),
    "fork_server": set(),
    "warm_server": set(),
    "fresh": set(),
    "join": set(),
    "mends": set(),
    "call": set(),
    "api": {"words", "rules", "hands", "views", "api", "call"},
    "pytest_plugin": {"words", "rules", "hands", "views", "api"},
    "__init__": {"words", "api"},
    "__main__": {"cli"},
}
PURE = ("words", "rules", "machine")
PURE_MODULES = ("check/findings.py", "check/source.py", "check/rules.py")
INSIDE = ("entry", "fork_server", "warm_server", "fresh", "join", "mends")
IMPURE = {"subprocess", "threading", "socket", "signal", "time", "random", "os", "asyncio", "multiprocessing"}


def files_of(*places: str) -> list[Path]:
    """Python files below the repository's directories."""
    return sorted(path for place in places for path in (ROOT / place).rglob("*.py"))


MODULES = files_of("clusterkit")
EVERYTHING = files_of("clusterkit", "workloads", "tests")


def short(path: Path) -> str:
    """A file's name in a test's id."""
    return str(path.relative_to(ROOT))


def imports_of(path: Path) -> Iterator[str]:
    """Every module that a file imports anywhere in it, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{short(path)} has a relative import"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def floor_of(path: Path) -> str:
    """`rules` for clusterkit/rules/spec.py, `entry` for clusterkit/entry.py."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def floors_imported(path: Path) -> set[str]:
    """The floors that a file imports from; `__init__` for the package's own names."""
    names = [name.split(".")[1] for name in imports_of(path) if name.startswith("clusterkit.")]
    return {name if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file() else "__init__" for name in names}


def top_names(path: Path) -> set[str]:
    """The packages that a file imports from."""
    return {name.split(".")[0] for name in imports_of(path)}


@pytest.mark.parametrize("path", MODULES, ids=short)
def test_each_floor_imports_only_downward(path: Path) -> None:
    """A floor knows itself and those below it; a new floor has to be put into the table."""
    allowed = BELOW.get(floor_of(path))
    assert allowed is not None, f"{short(path)} is on no floor that this test knows"
    assert floors_imported(path) <= allowed


@pytest.mark.parametrize(
    "path", [p for p in MODULES if floor_of(p) in PURE or str(p).endswith(PURE_MODULES)], ids=short
)
def test_what_is_pure_imports_nothing_with_effects(path: Path) -> None:
    """No process, thread, socket, signal, clock, chance or system: now and jitter are arguments."""
    assert top_names(path) & IMPURE == set()
    assert "pathlib.Path" not in set(imports_of(path))


@pytest.mark.parametrize("path", [p for p in MODULES if floor_of(p) in ("words", "switch", *INSIDE)], ids=short)
def test_words_and_entry_need_the_standard_library_only(path: Path) -> None:
    """The entry runs with an interpreter that may know nothing else, the words everywhere."""
    assert top_names(path) - {"clusterkit"} <= sys.stdlib_module_names


@pytest.mark.parametrize("path", [p for p in MODULES if p.name != "__main__.py" and floor_of(p) != "cli"], ids=short)
def test_nothing_imports_the_command_line(path: Path) -> None:
    """cli is a door; nothing inside the house uses it."""
    assert not [name for name in imports_of(path) if name.startswith("clusterkit.cli")]


@pytest.mark.parametrize(
    ("package", "floor"),
    [
        ("click", "cli"),
        ("pytest", "pytest_plugin"),
        ("tensorflow", "training"),
        ("keras", "training"),
        ("tensorboard", "tensorboard"),
    ],
)
def test_a_package_is_known_to_one_floor_alone(package: str, floor: str) -> None:
    """click to cli, pytest to the plugin, TensorFlow to what runs inside the tasks; not even lazily elsewhere."""
    knowing = {floor_of(path) for path in MODULES if package in top_names(path)}
    assert knowing <= {floor}


def test_what_brings_a_job_up_loads_no_tensorflow() -> None:
    """Everything that launch and prepare import, and what that imports, is free of it."""
    found, new = set[Path](), {PACKAGE / "supervisor/launch.py", PACKAGE / "supervisor/prepare.py"}
    while new:
        found |= new
        new = {file for path in new for file in clusterkit_files(path)} - found
    assert len(found) > 30, "the imports are not followed"
    for path in found:
        assert top_names(path) & {"tensorflow", "keras", "numpy", "sklearn"} == set(), short(path)
        assert floor_of(path) != "training"


def clusterkit_files(path: Path) -> Iterator[Path]:
    """The files of clusterkit that a file imports."""
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "clusterkit":
            bases = [PACKAGE.joinpath(*parts[1:]), PACKAGE.joinpath(*parts[1:-1])]
            candidates = [c for base in bases for c in (base.with_suffix(".py"), base / "__init__.py")]
            yield from (c for c in candidates if c.is_file())


@pytest.mark.parametrize("path", [p for p in MODULES if floor_of(p) == "backends"], ids=short)
def test_backends_know_neither_each_other_nor_views(path: Path) -> None:
    """A backend imports the contract, and no other one."""
    others = {f"clusterkit.backends.{p.stem}" for p in MODULES if floor_of(p) == "backends"}
    others -= {"clusterkit.backends.base", "clusterkit.backends.__init__", f"clusterkit.backends.{path.stem}"}
    imported = list(imports_of(path))
    assert not [name for name in imported if name.startswith(tuple(others) or "-")]
    assert not [name for name in imported if name.startswith("clusterkit.views")]


@pytest.mark.parametrize("name", ["rules/restart.py", "rules/blame.py", "machine/recovery.py"])
def test_restart_and_blame_know_nothing_of_injected_faults(name: str) -> None:
    """An injected exit is dealt with as a real one, or fault experiments would lie."""
    tree = ast.parse((PACKAGE / name).read_text())
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


@pytest.mark.parametrize("path", files_of("tests/unit"), ids=short)
def test_every_unit_test_says_what_it_is_for(path: Path) -> None:
    """One sentence of docstring each."""
    functions = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)]
    assert [node.name for node in functions if node.name.startswith("test_") and not ast.get_docstring(node)] == []


@pytest.mark.parametrize("path", [p for p in MODULES if floor_of(p) == "cli"], ids=short)
def test_commands_print_through_one_place(path: Path) -> None:
    """cli/terminal.py makes text printable; whoever prints past it lets a task's escape sequences through."""
    calls = [ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    printing = {call for call in calls if call in ("print", "click.echo", "click.secho", "sys.stdout.write")}
    assert not printing or path.name == "terminal.py"
