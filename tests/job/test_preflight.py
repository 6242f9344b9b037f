"""Preflight: what can be seen to be wrong with the files of a job, and what must not be looked at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.job.preflight import directory_problems, interpreter_problems
from clusterkit.job.program import with_program
from clusterkit.words.job import Debugging, Setup
from clusterkit.words.model import Program, ProgramKind, TaskType
from tests.histories import job

TOO_LONG = "x" * 300


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A directory that nobody but root may enter."""
    if os.getuid() == 0:
        pytest.skip("root may enter every directory")
    directory = tmp_path / "locked"
    directory.mkdir(mode=0o000)
    yield directory
    directory.chmod(0o700)


def test_tasks_beyond_number_are_not_listed() -> None:
    """That there are too many is a problem of the description; a list of them would fill the memory."""
    many = replace(job(), counts=dict.fromkeys(TaskType, 10**20), debug=Debugging(editors=("worker", "ps:1")))
    assert len(interpreter_problems(many)) <= 1


def test_a_name_that_is_too_long_is_a_problem() -> None:
    """Of the program and of each directory, with the reason."""
    names = replace(
        job(),
        program=Program(ProgramKind.SCRIPT, TOO_LONG),
        setup=Setup(cwd=TOO_LONG),
        checkpoint_dir=f"{TOO_LONG}/x",
    )
    problems = [*with_program(names)[1], *directory_problems(names)]
    assert [problem.replace(TOO_LONG, "LONG") for problem in problems] == [
        "LONG can't be read: file name too long.",
        "The directory LONG for the tasks can't be used: file name too long.",
        "The checkpoint directory LONG/x can't be used: file name too long.",
    ]


def test_what_is_below_a_directory_that_can_not_be_entered_is_a_problem(locked: Path) -> None:
    """So is the directory itself, for tasks."""
    names = replace(
        job(),
        program=Program(ProgramKind.SCRIPT, f"{locked}/train.py"),
        setup=Setup(cwd=f"{locked}/x"),
        setups={TaskType.WORKER: Setup(cwd=str(locked))},
        checkpoint_dir=f"{locked}/x",
    )
    problems = [*with_program(names)[1], *directory_problems(names)]
    assert [problem.replace(str(locked), "LOCKED") for problem in problems] == [
        "LOCKED/train.py can't be read: permission denied.",
        "The directory LOCKED/x for the tasks can't be used: permission denied.",
        "The directory LOCKED for the tasks can't be used: permission denied.",
        "The checkpoint directory LOCKED/x can't be used: permission denied.",
    ]
