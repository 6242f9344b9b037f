"""What people name as the program: what is run of it, and what keeps it from being run."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusterkit.job.options import GivenOptions, JobOptions
from clusterkit.job.program import with_program, without_interpreter
from clusterkit.words.job import Debugging, JobSpec, TfConfig
from clusterkit.words.model import Program, ProgramKind
from tests.histories import job

HERE = Path(sys.executable).parent


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with programs, and an interpreter of another environment in PATH."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{HERE}:{tmp_path}/other")
    (tmp_path / "other").mkdir()
    for name in ("python3.99", "torchrun"):
        (tmp_path / "other" / name).touch(0o755)
    (tmp_path / "train.py").write_text("print(1)\r\n")
    (tmp_path / "Train.IPYNB").write_text(json.dumps({"cells": []}))
    (tmp_path / "job.toml").write_text("workers = 2\n")
    for name, text in {
        "windows.sh": "#!/bin/bash\r\necho\r\n",
        "bare.sh": "echo\n",
        "good.sh": "#!/bin/bash\necho\r\n",
        "script": "#!/usr/bin/env python3\r\nprint()\r\n",
    }.items():
        (tmp_path / name).write_bytes(text.encode())
        (tmp_path / name).chmod(0o755)
    for name in ("empty", "python", "whole", "part", "job"):
        (tmp_path / name).mkdir()
    (tmp_path / "whole" / "__main__.py").touch()
    (tmp_path / "part" / "main.py").touch()
    (tmp_path / "job" / "job.toml").touch()
    return tmp_path


WRONG = {
    "Train.IPYNB": "Train.IPYNB is a notebook. "
    "Convert it to a program first: jupyter nbconvert --to script Train.IPYNB",
    "job.toml": "job.toml is a job file. Name it with -f: clusterkit up -f job.toml",
    "windows.sh": r"windows.sh has the line ends of Windows, so the system looks for an interpreter `/bin/bash\r`. "
    r"Convert them: sed -i 's/\r$//' windows.sh",
    "bare.sh": "bare.sh does not begin with a line that names its interpreter, such as #!/bin/bash.",
    "empty": "empty is a directory. Name the program's file, or a package with -m.",
    "whole": "whole is a directory. Name its program: whole/__main__.py",
    "part": "part is a directory. Name its program: part/main.py",
    "job": "job is a directory. Name its job file: -f job/job.toml",
    "https://x.org/a/train.py": "https://x.org/a/train.py is a URL. Copy the program to this machine first: "
    "curl -LO https://x.org/a/train.py",
    "gs://b/train.py": "gs://b/train.py is a URL. Copy the program to this machine first.",
    "train.py --steps 3": "There is no program 'train.py --steps 3'. Leave out the quotation marks around it.",
    "python train.py": "There is no program 'python train.py'. Leave out the quotation marks around it.",
}


@pytest.mark.parametrize("target", WRONG)
def test_what_is_not_a_program_is_a_problem(target: str) -> None:
    """It says what to do instead."""
    assert with_program(job_of(target))[1] == [WRONG[target]]


@pytest.mark.parametrize(
    ("target", "kind"),
    [("train.py", ProgramKind.SCRIPT), ("script", ProgramKind.SCRIPT), ("good.sh", ProgramKind.COMMAND)],
)
def test_line_ends_that_do_no_harm(target: str, kind: ProgramKind) -> None:
    """Python reads them, and a shell's script may have some below its first line."""
    found, problems = with_program(job_of(target))
    assert (found.program.kind, problems) == (kind, [])


LEAVE = "Leave out `{}`: clusterkit runs {} with its own interpreter."
OPTION = "Write an interpreter as an option: --python {} {}. Without it, tasks have clusterkit's own."
KEPT: dict[str, tuple[JobOptions, str]] = {  # the words of a command line: what they become, and the note
    "python train.py": ({"program": "train.py", "args": []}, LEAVE.format("python", "train.py")),
    "python train.py -u 3": ({"program": "train.py", "args": ["-u", "3"]}, LEAVE.format("python", "train.py")),
    "python3 -u train.py": ({"program": "train.py", "args": []}, LEAVE.format("python3 -u", "train.py")),
    f"{HERE}/python train.py": ({"program": "train.py", "args": []}, LEAVE.format(f"{HERE}/python", "train.py")),
    "python -m pkg -v": ({"module": "pkg", "args": ["-v"]}, LEAVE.format("python", "-m pkg")),
    "python -u -mpkg": ({"module": "pkg", "args": []}, LEAVE.format("python -u", "-m pkg")),
    "python3.99 train.py": (
        {"program": "train.py", "args": [], "python": "python3.99"},
        OPTION.format("python3.99", "train.py"),
    ),
    "other/python3.99 -m pkg": (
        {"module": "pkg", "args": [], "python": "other/python3.99"},
        OPTION.format("other/python3.99", "-m pkg"),
    ),
    "python -O train.py": (
        {"program": "python", "args": ["-O", "train.py"]},
        "python -O is run as a command: without warm starts, breakpoint() and stacks.",
    ),
    "train.py python": ({"program": "train.py", "args": ["python"]}, ""),
    "./train.py": ({"program": "./train.py", "args": []}, ""),
    "python3.98 train.py": ({"program": "python3.98", "args": ["train.py"]}, ""),
}


@pytest.mark.parametrize("line", KEPT)
def test_an_interpreter_before_the_program_is_left_out(line: str) -> None:
    """With a note; options of Python that change what the program does make it a command."""
    program, *args = line.split()
    found = without_interpreter(GivenOptions({"program": program, "args": args}))
    options, note = KEPT[line]
    assert (found.options, list(found.notes)) == (options, [note] if note else [])
    assert without_interpreter(found).options == options


def test_an_interpreter_that_is_an_option_stays() -> None:
    """Whatever stands before the program."""
    found = without_interpreter(GivenOptions({"program": "python", "args": ["train.py"], "python": "python3.99"}))
    assert found.options == {"program": "train.py", "args": [], "python": "python3.99"}
    assert found.notes == ["Leave out `python`: clusterkit runs train.py with that of --python."]


@pytest.mark.parametrize("args", [[], ["-"], ["-u"], ["-i"], ["-u", "-"]])
def test_an_interpreter_without_a_program_is_a_problem(args: list[str]) -> None:
    """It reads its standard input, which no task has, and ends with success."""
    found = without_interpreter(GivenOptions({"program": "python", "args": args}))
    assert found.problems == ["python is given without a program. Tasks have no standard input to read one from."]


def job_of(target: str) -> JobSpec:
    """A job with this program."""
    return replace(job(), program=Program(ProgramKind.SCRIPT, target))


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        ({"tf_config": TfConfig.OURS}, "--tf-config ours"),
        ({"debug": Debugging(post_mortem=True)}, "--pdb"),
        ({"debug": Debugging(editors=("worker:0",))}, "--debugpy"),
        ({}, None),
    ],
)
def test_options_that_have_no_effect_on_a_command(options: dict[str, Any], flag: str | None) -> None:
    """They are refused, and are for a Python program."""
    asked = replace(job(workers=1), **options)
    command, problems = with_program(replace(asked, program=Program(ProgramKind.SCRIPT, "good.sh")))
    assert command.program.kind is ProgramKind.COMMAND
    assert [problem.partition(" is for ")[0] for problem in problems] == ([] if flag is None else [flag])
    assert with_program(replace(asked, program=Program(ProgramKind.SCRIPT, "train.py")))[1] == []
