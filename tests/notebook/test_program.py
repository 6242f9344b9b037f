"""The line of `%%cluster`, and the file that a cell becomes."""

from __future__ import annotations

import ast
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from clusterkit.notebook.magics import CellLine, cell_line, pickle_values, source
from clusterkit.task import call
from clusterkit.words.errors import BadJob


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("", CellLine([])),
        ("--workers 2 --ps 1", CellLine(["--workers", "2", "--ps", "1"])),
        ("--with model_fn,data --workers 2", CellLine(["--workers", "2"], ("model_fn", "data"))),
        ("--with=a --with b,a", CellLine([], ("a", "b"))),
        ("--workers 2 -- --epochs 3 --with x", CellLine(["--workers", "2"], (), ("--epochs", "3", "--with", "x"))),
        ("--fault 'kill worker:1 @ step=5'", CellLine(["--fault", "kill worker:1 @ step=5"])),
    ],
)
def test_the_line_has_options_names_and_arguments(line: str, parsed: CellLine) -> None:
    """As a shell splits it; what stands after `--` is the program's."""
    assert cell_line(line) == parsed


@pytest.mark.parametrize("line", ["--with", "--with ''", "--with a,,b", "--with a.b", "--fault 'kill"])
def test_a_line_that_is_wrong_is_refused(line: str) -> None:
    """With a sentence, before anything is started."""
    with pytest.raises(BadJob):
        cell_line(line)


def test_a_hostile_line_is_parsed_or_refused() -> None:
    """Whatever somebody types, no other exception comes of it."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice, refused = random.Random(seed), 0
    pieces = [
        "--with",
        "=",
        ",",
        " ",
        "'",
        '"',
        "\\",
        "--",
        "a",
        "\x00",
        "\n",
        "\u202e",
        "\ud800",
        "é",
        "#",
        "$x",
        "{y}",
    ]
    for _ in range(3000):
        line = "".join(dice.choices(pieces, k=dice.randrange(12)))
        try:
            parsed = cell_line(line)
        except BadJob:
            refused += 1
        else:
            assert all(name.isidentifier() for name in parsed.names)
            assert "\0" not in "".join([*parsed.options, *parsed.args]).encode().decode()
    assert 0 < refused < 3000


def executed(text: str, file: Path) -> dict[str, Any]:
    """What a program has defined, run as Python runs it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, str(file), "exec"), names)
    return names


def test_lines_keep_their_numbers(tmp_path: Path) -> None:
    """A traceback names the line of the cell: the magic's is the first."""
    program = source("x = 1\nraise ValueError(x)\n", ["/here"], None)
    with pytest.raises(ValueError) as raised:
        executed(program, tmp_path / "cell.py")
    assert raised.traceback[-1].lineno + 1 == 3


@pytest.mark.parametrize(
    "cell",
    [
        "from __future__ import annotations\ndef f(x: Unknown): pass\n",
        "'''Öl'''; from __future__ import annotations; y = 'ä'\ndef f(x: Unknown): pass\n",
        "# -*- comment -*-\nfrom __future__ import (\n    annotations,\n)\ndef f(x: Unknown): pass\n",
    ],
)
def test_imports_from_the_future_stay_first(cell: str, tmp_path: Path) -> None:
    """Python wants them before anything else; the other lines do not move."""
    program = source(cell, [], None)
    assert executed(program, tmp_path / "cell.py")["f"].__annotations__ == {"x": "Unknown"}
    lines = [node.lineno for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.FunctionDef)]
    assert [node.lineno - 1 for node in ast.walk(ast.parse(program)) if isinstance(node, ast.FunctionDef)] == lines


def test_a_cell_that_is_no_python_is_left_to_python() -> None:
    """Its tasks say what is wrong, with the line."""
    assert source("x = (\n", [], None).endswith("\nx = (\n")
    assert source("\x00", [], None).endswith("\n\x00")


def test_names_are_taken_along(tmp_path: Path) -> None:
    """Functions with what they use, modules by name, values as they are, and shared where they are shared."""
    shared = [1]
    notebook: dict[str, Any] = {"__name__": "__main__"}
    exec("import math\nscale = 3\ndef f(x):\n    return math.floor(x) * scale\n", notebook)
    notebook |= {"data": shared, "same": shared}
    pickle_values(["f", "math", "data", "same"], notebook, tmp_path / "with.pkl")
    names = executed(source("got = f(2.5), math.pi, data is same\n", [], tmp_path / "with.pkl"), tmp_path / "cell.py")
    assert names["got"] == (6, notebook["math"].pi, True)


def test_names_that_do_not_work_are_all_named(tmp_path: Path) -> None:
    """What the notebook does not have, with what it may be; what can't be pickled, with why."""
    known = {"model_fn": 1, "_private": 2, "bad": threading.Lock()}
    with pytest.raises(BadJob) as refused:
        pickle_values(["model_fm", "bad"], known, tmp_path / "with.pkl")
    missing, unfit = refused.value.problems
    assert "model_fm" in missing
    assert "Did you mean model_fn?" in missing
    assert "bad: it can't be pickled: TypeError" in unfit
    assert not (tmp_path / "with.pkl").exists()


def test_what_is_taken_along_is_pickled_as_functions_of_clusters_are(tmp_path: Path) -> None:
    """A value that refers to itself, too."""
    value: list[Any] = []
    value.append(value)
    pickle_values(["value"], {"value": value}, tmp_path / "with.pkl")
    assert (tmp_path / "with.pkl").read_bytes() == call.dumps({"value": value})
