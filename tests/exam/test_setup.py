"""What an exam is made from: its chapters, the commands that it prints, and what a test may ask for."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from clusterkit.api.options import Keywords, gathered
from clusterkit.exam.examiner import Examiner
from clusterkit.exam.model import Cell, Chapter, ExamFinding, judge
from clusterkit.exam.setup import ExamKeywords, ExamSettings, examine_program, make_examiner
from clusterkit.job.options import Options
from clusterkit.pytest_plugin import Clusters
from clusterkit.words.errors import BadJob

REPEAT, EQUALITY, RESUME, SURVIVAL = Chapter
CELL = Cell(EQUALITY, "1-against-4")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program, in the current directory."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("")
    return "train.py"


def examiner(program: str, options: dict[str, Any], **own: Any) -> Examiner:
    """An examiner of a program with these options of a job, and its own."""
    return make_examiner(gathered(program, ["--lr", "0.1"], cast(Options, options)), ExamSettings(**own))[0]


@pytest.mark.parametrize(
    ("options", "own", "expected"),
    [
        ({"workers": 2}, {}, "--cell={} --workers=2 --seed=7 train.py"),
        ({"workers": 2}, {"wide": True}, "--cell={} --wide --workers=2 --seed=7 train.py"),
        ({"workers": 2, "timeout": 90}, {}, "--cell={} --workers=2 --timeout=90 --seed=7 train.py"),
        ({"workers": 2, "env": {"MODE": "a b"}}, {}, "--cell={} '--env=MODE=a b' --workers=2 --seed=7 train.py"),
        ({"workers": 2, "env": {"KEY": "x"}}, {}, "--cell={} --env=KEY --workers=2 --seed=7 train.py"),
        ({"workers": 2, "run_id": "mine"}, {}, "--cell={} --workers=2 --seed=7 train.py"),
    ],
)
def test_the_command_that_repeats_a_cell(
    program: str, options: dict[str, Any], own: dict[str, Any], expected: str
) -> None:
    """Has what the cell depends on: the seed, --wide, the user's limit and variables, but not the exam's own limit."""
    made = examiner(program, {**options, "seed": 7}, **own)
    made.trials.limit(12.0)
    words = shlex.split(made.replay(CELL))
    asked = shlex.split(f"clusterkit exam {expected.format(CELL)} --lr 0.1")
    assert words[:3] == asked[:3]
    assert sorted(words) == sorted(asked)


def test_a_command_that_is_stored_has_no_values_of_variables(program: str) -> None:
    """Unlike the one that is printed for the user who typed them."""
    made = examiner(program, {"workers": 2, "env": {"MODE": "fast"}})
    assert "--env=MODE=fast" in made.replay(CELL)
    noted = made._noted(judge(CELL, [ExamFinding("x", "Twice.", "Halve.")]))
    assert "MODE" in noted.command
    assert "fast" not in noted.command
    assert noted.text == "equality/1-against-4 failed: Twice. → Halve."


def test_the_command_that_repeats_the_exam(program: str) -> None:
    """With the seed that was drawn, and the options of the exam itself."""
    own = {"quick": True, "budget": 90.0, "parallel": 2, "chapters": (RESUME,), "require": (RESUME,)}
    made = examiner(program, {"workers": 2}, **own)
    setting = made.report.setting
    assert setting is not None
    flags = "--quick --budget=90s --parallel=2 --chapter=resume --require=resume"
    assert made.parallel == 2
    assert setting.command == f"clusterkit exam {flags} --workers=2 --seed={made.report.seed} train.py --lr 0.1"
    assert (setting.program, setting.tasks) == ("train.py", "2 workers")
    assert setting.versions["clusterkit"]


@pytest.mark.parametrize(
    ("options", "own", "applicable", "asked"),
    [
        ({"workers": 2}, {}, list(Chapter), list(Chapter)),
        ({"workers": 1}, {}, [REPEAT, RESUME, SURVIVAL], [REPEAT, RESUME, SURVIVAL]),
        ({"workers": 1}, {"wide": True}, list(Chapter), list(Chapter)),
        ({"workers": 2}, {"chapters": (RESUME,)}, list(Chapter), [RESUME]),
        ({"workers": 2}, {"cells": ("resume/x", "equality/1-against-2")}, list(Chapter), [RESUME, EQUALITY]),
        ({"workers": 2}, {"require": (EQUALITY,)}, list(Chapter), [EQUALITY]),
    ],
)
def test_what_an_exam_needs_to_pass(
    program: str, options: dict[str, Any], own: dict[str, Any], applicable: list[Chapter], asked: list[Chapter]
) -> None:
    """All chapters that apply, unless some chapters or cells are chosen."""
    report = examiner(program, options, **own).report
    assert (list(report.chapters), list(report.asked)) == (applicable, asked)


def test_only_the_chapters_that_were_chosen_are_examined(program: str) -> None:
    """And the others do not count as skipped."""
    made = examiner(program, {"workers": 2}, chapters=(RESUME,))
    assert made._is_chosen(Cell(RESUME, "x"))
    assert not made._is_chosen(CELL)
    assert made.report.results == []


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"cells": "resume/x"}, "cells='resume/x': it has to be a list"),
        ({"cells": ["resume"]}, "'resume' is not a cell"),
        ({"chapters": ["resum"]}, "chapters: 'resum' is not a chapter. Did you mean resume?"),
        ({"require": ["equal"]}, "require: 'equal' is not a chapter"),
        ({"require": "equality"}, "it has to be a list"),
        ({"budget": "soon"}, "budget='soon'"),
        ({"budget": -1}, "budget=-1"),
        ({"parallel": 0}, "parallel=0: it has to be a number from 1 to 1000"),
        ({"parallel": True}, "parallel=True"),
        ({"workers": "two"}, "--workers: 'two' is not a valid integer"),
    ],
)
def test_what_a_test_may_not_ask_for(program: str, own: dict[str, Any], said: str) -> None:
    """Is one clear error, and nothing runs."""
    with ExitStack() as stack, pytest.raises(BadJob) as error:
        examine_program(program, stack, **cast(ExamKeywords, {"workers": 2, **own}))
    assert said in str(error.value)


def test_an_unknown_keyword(program: str) -> None:
    """Is an error of the test."""
    with ExitStack() as stack, pytest.raises(TypeError, match="no option 'budgets'"):
        examine_program(program, stack, **cast(ExamKeywords, {"budgets": 3}))


def test_the_faults_of_a_job_file_are_not_those_of_an_exam(program: str) -> None:
    """No faults replace them, which an omitted option would not."""
    made = examiner(program, {"workers": 2, "fault": ["kill worker:1 @ step=5"]})
    assert "fault" not in made.trials.template.given_options().options
    none = made.trials.template.with_changes({"fault": []}).given_options()
    assert none.options["fault"] == ()


@pytest.mark.parametrize(
    ("keywords", "asked", "budget"),
    [
        ({"workers": 2}, [EQUALITY, RESUME], 60.0),
        ({"workers": 1}, [RESUME], 60.0),
        ({"workers": 2, "quick": False}, [EQUALITY, RESUME], 360.0),
        ({"workers": 2, "chapters": ["survival"], "budget": "5m"}, [SURVIVAL], 300.0),
        ({"workers": 2, "cells": ["equality/1-against-2"]}, [EQUALITY], 60.0),
        ({"workers": 1, "require": ["equality"]}, [EQUALITY], 60.0),
        ({"workers": 2, "chapters": ["resume"], "require": []}, [], 60.0),
    ],
)
def test_what_a_test_insists_on(
    program: str, monkeypatch: pytest.MonkeyPatch, keywords: dict[str, Any], asked: list[Chapter], budget: float
) -> None:
    """Equality and resume as far as they apply, unless the test chooses."""
    monkeypatch.setattr(Examiner, "examine", lambda self: iter(()))
    with ExitStack() as stack:
        report = examine_program(program, stack, **cast(ExamKeywords, keywords))
    assert (list(report.asked), report.budget) == (asked, budget)


def test_an_exam_in_a_test_has_the_options_of_the_marker(
    program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """But not the time limit of a single run, and its own options come first."""
    given: dict[str, Any] = {}

    def note(program: object, cleanup: ExitStack, **keywords: Any) -> None:
        given.update(keywords, program=program)

    monkeypatch.setattr("clusterkit.exam.setup.examine_program", note)
    defaults: Keywords = {"timeout": 120.0, "verify": "yes", "workers": 2, "file": "job.toml"}
    Path("below").mkdir()
    Path("below/job.toml").write_text("")
    clusters = Clusters(tmp_path, defaults, [tmp_path / "below"])
    clusters.exam(workers=3, chapters=["resume"])
    assert given == {
        "program": None, "workers": 3, "chapters": ["resume"], "file": tmp_path / "below/job.toml",
    }  # fmt: skip
