"""Errors as people read them: real logs and what is shown of each; hostile ones come out in few lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from clusterkit.views.tracebacks import MOST, cause_lines

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.txt"))
HANDLING = "During handling of the above exception, another exception occurred:"
RULE = "=" * 72 + "\n"  # between a log and what is shown of it
TITLE = "Traceback (most recent call last):"
OWN = '  File "/home/me/job/train.py", line 3, in step'
IN_C = ("*** Check failure stack trace: ***", "    @     0x7f0a1b2c3d4e  tensorflow::x()")
CRASHED = ("Fatal Python error: Aborted", '  File "/home/me/job/train.py", line 3 in step')
KERAS = '  File "/venv/lib/python3.11/site-packages/keras/src/x.py", line 9, in fit'
TF = '  File "/venv/lib/python3.11/site-packages/tensorflow/python/y.py", line 8, in run'


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_a_real_log_is_shown_with_the_programs_own_lines_first(sample: Path) -> None:
    """Of Python, AutoGraph, graphs, groups, chains, what is no Python, and crashes."""
    log, _, expected = sample.read_text().partition(RULE)
    assert cause_lines([line for line in log.splitlines() if line.strip()], 72) == expected.splitlines()


@pytest.mark.parametrize(
    ("log", "shown"),
    [
        ([], []),
        (
            ["W0000 00:00:1.1 1 a.cc:1] no", "F0000 00:00:1.2 1 b.cc:2] Check failed: n == 2", *IN_C, *CRASHED],
            ["F0000 00:00:1.2 1 b.cc:2] Check failed: n == 2", "Fatal Python error: Aborted", "train.py:3 in step"],
        ),
        (
            ["free(): invalid pointer", *CRASHED],
            ["free(): invalid pointer", "Fatal Python error: Aborted", "train.py:3 in step"],
        ),
        (["step 1", "killed"], ["step 1", "killed"]),
        ([f"31/32 ━━━ - mae: 1.9{TITLE}", OWN, "    f()", "E: 1"], ["train.py:3 in step: f()", "E: 1"]),
        ([TITLE, KERAS, "    f()", TF, "    g()", KERAS, "E"], ["… 3 frames of keras and tensorflow", "E"]),
        ([TITLE, KERAS, "    f()", "a.b.Bad"], ["… 1 frame of keras", "Bad"]),
        ([TITLE, OWN, "    f(", "      1,", "    ^^", "E: a.b.C: 1"], ["train.py:3 in step: f(", "E: a.b.C: 1"]),
        ([OWN, "    f()", KERAS, "E: cut"], ["train.py:3 in step: f()", "… 1 frame of keras", "E: cut"]),
        (
            [TITLE, OWN, "    f()", "W0000 00:00:1795.1 1 x.cc:9] in the midst", "ValueError: no", "bye"],
            ["train.py:3 in step: f()", "ValueError: no", "bye"],
        ),
        (
            [TITLE, OWN, "E: 1", HANDLING, TITLE, OWN, "E: 2"],
            [
                "train.py:3 in step", "E: 1", HANDLING,
                "train.py:3 in step", "E: 2",
            ],
        ),
        ([TITLE, OWN, "E: 1", "went on", TITLE, OWN, "E: 2"], ["train.py:3 in step", "E: 2"]),
        ([TITLE, f'{OWN}', "    " + "x" * 90, "E"], [f"train.py:3 in step: {'x' * 51}…", "E"]),
        ([TITLE, OWN, "E: " + "x" * 90], ["train.py:3 in step", "E: " + "x" * 90]),
    ],
)  # fmt: skip
def test_what_is_shown_of_a_log(log: list[str], shown: list[str]) -> None:
    """Without a traceback, its last lines; calls are cut to the width, and what the error says is not."""
    assert cause_lines(log, 72) == shown


def test_a_file_elsewhere_has_its_whole_path() -> None:
    """Others are named as the program's first own line is."""
    lib = '  File "/home/me/lib/data.py", line 7, in read'
    deep = '  File "/home/me/job/models/net.py", line 5, in call'
    assert cause_lines([TITLE, OWN, lib, deep, "E"], 72) == [
        "train.py:3 in step", "/home/me/lib/data.py:7 in read", "models/net.py:5 in call", "E",
    ]  # fmt: skip


PIECES = [
    *(
        TITLE,
        OWN,
        KERAS,
        TF,
        f"  + Exception Group {TITLE}",
        '  |   File "x", line 1, in f',
        "    | ",
        "    ^^^^",
        "E: 1",
    ),
    *(HANDLING, "  [Previous line repeated 9 more times]"),
    *(
        '  File "x.py", line 1',
        "SyntaxError: no",
        "Fatal Python error: x",
        "",
        " " * 300,
        '  File "',
        "|" * 300,
        "a." * 300,
    ),
]


@seed(1)
@given(st.lists(st.sampled_from(PIECES) | st.text(st.characters(exclude_categories=["Cs"])), max_size=60))
def test_a_hostile_log_comes_out_in_few_lines(log: list[str]) -> None:
    """Whatever it holds, at no more than the length of what was written."""
    shown = cause_lines(log, 72)
    assert len(shown) <= MOST
    assert all(len(line) <= max([80, *map(len, log)]) for line in shown)


def test_a_log_of_random_bytes_is_shown() -> None:
    """Nothing in it is taken for more than text."""
    log = bytes(range(256)).decode("latin-1").splitlines() * 50
    assert len(cause_lines([*log, TITLE, *log], 72)) <= MOST
