"""Tracebacks that several tasks print, as histories of lines."""

from __future__ import annotations

from hypothesis import given, seed
from hypothesis import strategies as st

from clusterkit.text.lines import TRACEBACK as TITLE
from clusterkit.views.repeats import LONGEST, Repeats, Told

FRAMES = ['  File "train.py", line 3, in step', "    f()"]
FIRST = [TITLE, *FRAMES, "E: 1", "more of it", "", "the end"]


def shown(*outputs: tuple[str, list[str]]) -> list[list[str]]:
    """What is shown of the output of each attempt, one after the other."""
    known = dict[tuple[str, ...], Told]()
    result = []
    for task, lines in outputs:
        repeats = Repeats(known, task)
        result.append([shown for line in lines for shown in repeats.feed(line)] + repeats.flush())
    return result


def test_the_same_traceback_of_another_task_is_two_lines() -> None:
    """With what its exception says in further lines, as far as that is the same."""
    folded = [f"{TITLE} … 2 lines as worker:0's", "E: 1"]
    others = ("worker:1", ["step 1", *FIRST]), ("worker:2", [*FIRST[:5], "bye", "the end"])
    assert shown(("worker:0", FIRST), *others) == [FIRST, ["step 1", *folded], [*folded, "bye", "the end"]]


def test_a_restarted_task_that_fails_again_repeats_nothing() -> None:
    """The task itself has shown it before; a program that prints it twice wants to."""
    again = [f"{TITLE} … 2 lines as before", "E: 1"]
    assert shown(("worker:0", FIRST * 2), ("worker:0", FIRST)) == [FIRST * 2, again]


def test_another_traceback_is_shown() -> None:
    """With another line, or another exception; or one without an end, or too long."""
    other = [TITLE, *FRAMES, "E: 2"]
    long = [TITLE, *FRAMES * LONGEST, "E: 1"]
    for lines in (other, [TITLE, "  File", "E: 1"], FIRST[:3], long, [TITLE, TITLE, *FRAMES, "E: 3"]):
        assert shown(("worker:0", FIRST), ("worker:1", lines))[1] == lines


def test_names_of_files_that_autograph_makes_do_not_count() -> None:
    """They differ in each task."""
    of_task = [
        [TITLE, f'  File "/tmp/__autograph_generated_file{name}.py", line 1, in f', "E: 1"] for name in ("a1", "b2")
    ]
    assert shown(("worker:0", of_task[0]), ("worker:1", of_task[1]))[1] == [f"{TITLE} … 1 line as worker:0's", "E: 1"]


@seed(1)
@given(st.lists(st.sampled_from([*FIRST, "x", " y"]) | st.text(max_size=5)))
def test_nothing_of_the_first_task_is_hidden(lines: list[str]) -> None:
    """Whatever it writes, in its order."""
    assert shown(("worker:0", lines)) == [lines]
