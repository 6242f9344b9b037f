"""The tables that programs leave behind: what counts as one, and which rows are there twice, or no longer."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from clusterkit.exam.leftovers import shared_path, written_tables
from clusterkit.exam.recording import Recording
from clusterkit.exam.tables import (
    Table,
    continued_documents,
    continued_tables,
    numbers_of,
    rows_of,
    shared_tables,
)
from clusterkit.words.model import Task, TaskType

FIRST, SECOND = Task(TaskType.WORKER, 0), Task(TaskType.WORKER, 1)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("epoch,loss\n0,0.5\n1,0.25\n", [("0", "0.5"), ("1", "0.25")]),
        ("0\t0.5\n1\t0.25", [("0", "0.5"), ("1", "0.25")]),
        ('{"step": 5, "loss": 0.5}\n{"step": 10, "loss": 0.25}\n', [("5", "0.5"), ("10", "0.25")]),
        ("epoch,loss\n0,1\nepoch,loss\n1,1\n2,1\n3,1\n", [("0", "1"), ("1", "1"), ("2", "1"), ("3", "1")]),
        ("began\nstep 1\nstep 2\n", []),  # a log
        ("0,1\n1,2,3\n", []),  # another number of fields
        ("epoch,loss\n", []),
        ("", []),
        ('{"step": \n[1]\n', []),
        ("[" * 100_000, []),
    ],
)
def test_what_is_a_table(text: str, rows: list[tuple[str, ...]]) -> None:
    """Rows of as many fields that begin with a number, with a header or without."""
    assert list(rows_of(text)) == rows


def table(*keys: str, writers: frozenset[Task] = frozenset({FIRST})) -> Mapping[str, Table]:
    """A log of steps or epochs, whose other field differs from run to run."""
    return {"log.csv": Table(tuple((*key.split(), f"{random.random()}") for key in keys), writers)}


@pytest.mark.parametrize(
    ("unbroken", "continued", "code", "said"),
    [
        (("1", "2", "3"), ("1", "2", "3"), "", ""),
        (("1", "2", "3"), ("1", "2", "2", "3"), "rows-twice", "and once in the unbroken run: 2."),
        (
            ("1", "2", "3", "4", "5", "6"),
            ("1", "2", "3", "4", "5", "2", "3", "4", "5", "6"),
            "rows-twice",
            "in the unbroken run: 2, 3, 4 and 1 more.",
        ),
        (
            ("1", "2", "3"),
            ("3",),
            "rows-lost",
            "log.csv lacks rows after the program continued, of 3 in the unbroken run: 1 and 2.",
        ),
        (("0 1", "0 2", "1 1"), ("0 1", "0 2", "0 2", "1 1"), "rows-twice", "run: 0 2."),  # two fields are the key
        (("1", "1", "1"), ("1", "1", "1", "1"), "", ""),  # events: nothing tells one row from another
        (("1", "2"), (), "", ""),
        ((), ("1", "1"), "", ""),
    ],
)
def test_a_table_after_a_continuation(
    unbroken: tuple[str, ...], continued: tuple[str, ...], code: str, said: str
) -> None:
    """Compared by the first fields of its rows; the others may hold times."""
    found = list(continued_tables(table(*unbroken), table(*unbroken), table(*continued)))
    assert [one.code for one in found] == [code] * bool(code)
    assert all(said in one.text and one.remedy for one in found)


def test_rows_of_another_number_of_workers_may_be_missing() -> None:
    """Its epochs may have other steps; but none is there twice."""
    whole = table("1", "2")
    assert not list(continued_tables(whole, whole, table("2"), compares_lost=False))
    assert list(continued_tables(whole, whole, table("2", "2"), compares_lost=False))


def test_keys_that_differ_from_run_to_run_are_not_compared() -> None:
    """Such as the time; nor are those that are no integers."""
    assert not list(continued_tables(table("101", "102"), table("201", "202"), table("301", "301")))
    assert not list(continued_tables(table("1.5", "2.5"), table("1.5", "2.5"), table("1.5", "1.5", "2.5")))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ('{"best": {"loss": 0.5, "epoch": 3}, "name": "a", "done": true}', {"best.loss": 0.5, "best.epoch": 3.0}),
        ("[1, [2.5]]", {"[0]": 1.0, "[1][0]": 2.5}),
        ("7", {"": 7.0}),
        ('{"attempt": 2, "started_at": 17.5, "wall_time": 3, "loss": 1}', {"loss": 1.0}),
        ('{"loss": NaN, "far": Infinity, "big": 1e999, "huge": 1' + "0" * 400 + "}", {}),
        ('{"loss": ', {}),
        ("[" * 100_000, {}),
        ("", {}),
    ],
)
def test_the_numbers_of_a_document(text: str, numbers: dict[str, float]) -> None:
    """By their names; not those that tell of the run."""
    assert numbers_of(text) == numbers


@pytest.mark.parametrize(
    ("unbroken", "again", "continued", "said"),
    [
        (
            '{"best": 0.25}',
            '{"best": 0.25}',
            '{"best": 0.5}',
            "In best.json, best is 0.5 after the program continued, a",
        ),
        ('{"best": 0.25}', '{"best": 0.25}', '{"best": 0.2500001}', ""),
        ('{"best": 0.25}', '{"best": 0.3}', '{"best": 0.5}', ""),  # it differs in any two runs
        ('{"best": 0.25}', '{"best": 0.25}', "{}", ""),
        ("3", "3", "4", "In best.json, the number is 4 after the program continued, and 3 in the unbroken run."),
    ],
)
def test_a_document_after_a_continuation(unbroken: str, again: str, continued: str, said: str) -> None:
    """Such as the best result of all epochs, which a program that continues has forgotten."""
    documents = [{"best.json": Table((), numbers=numbers_of(text))} for text in (unbroken, again, continued)]
    found = list(continued_documents(*documents))
    assert [one.code for one in found] == ["file-differs"] * bool(said)
    assert all(said in one.text and one.remedy for one in found)
    assert not list(continued_documents({}, documents[1], documents[2]))


@pytest.mark.parametrize(
    ("several", "writers", "is_found"),
    [
        (("1", "1", "2", "2"), {FIRST, SECOND}, True),
        (("1", "1", "2", "2"), {FIRST}, False),
        (("1", "2"), {FIRST, SECOND}, False),
    ],
)
def test_a_table_that_several_workers_write(several: tuple[str, ...], writers: set[Task], is_found: bool) -> None:
    """If a row is there more than once, and with one worker once."""
    found = list(shared_tables(table("1", "2"), table(*several, writers=frozenset(writers))))
    assert [one.code for one in found] == ["rows-twice"] * is_found
    assert all(one.text.startswith("worker:0 and worker:1 write log.csv") or not is_found for one in found)


def test_the_rows_that_a_run_has_appended(tmp_path: Path) -> None:
    """Without those of earlier runs, if no attempt wrote the file anew; a run's own directory is not in the name."""
    log, own = tmp_path / "log.csv", tmp_path / "runs" / "run-1" / "checkpoints" / "log.csv"
    own.parent.mkdir(parents=True)
    log.write_text("1,a\n2,a\n1,b\n2,b\n")
    own.write_text("1,a\n")
    appended = [
        Recording(FIRST, 1, tables={str(log): (8, True), str(own): (0, True), str(tmp_path / "gone.csv"): (0, True)}),
        Recording(FIRST, 2, tables={str(log): (12, True)}),
        Recording(SECOND, 1, tables={str(log): (12, True)}),
    ]
    read = written_tables(appended, tmp_path / "runs")
    assert read == {
        str(log): Table((("1", "b"), ("2", "b")), frozenset({FIRST, SECOND})),
        "checkpoints/log.csv": Table((("1", "a"),), frozenset({FIRST})),
    }
    anew = [*appended, Recording(FIRST, 3, tables={str(log): (16, False)})]
    assert len(written_tables(anew, tmp_path / "runs")[str(log)].rows) == 4


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    """A program may write anything under such a name."""
    path = tmp_path / "log.csv"
    path.write_bytes(bytes(range(256)) * 4)
    assert written_tables([Recording(FIRST, 1, tables={str(path): (0, False)})], tmp_path) == {}
    path.unlink()
    path.mkdir()
    assert written_tables([Recording(FIRST, 1, tables={str(path): (0, False)})], tmp_path) == {}


def test_a_table_outside_of_the_run_is_that_of_all_runs(tmp_path: Path) -> None:
    """Runs side by side would mix in it; each run has the others for itself."""
    runs = tmp_path / "runs"
    own, common = runs / "exam-1-again" / "log.csv", tmp_path / "common.csv"
    own.parent.mkdir(parents=True)
    for path in (own, common):
        path.write_text("0,0.5\n1,0.25\n")
    found = written_tables([Recording(FIRST, 1, tables={str(own): (0, False)})], runs)
    assert shared_path(found) == ""
    found = written_tables([Recording(FIRST, 1, tables={str(own): (0, False), str(common): (0, True)})], runs)
    assert shared_path(found) == str(common)
