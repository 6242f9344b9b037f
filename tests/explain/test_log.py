"""Logs from anywhere: which task failed first, whatever writes its name before its lines, and whatever is in them."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as some

from clusterkit.explain.errors import LONGEST_LINE, MOST, error_text
from clusterkit.explain.log import explain_log
from clusterkit.explain.row import Row
from clusterkit.explain.table import TABLE

OWN = [
    "Traceback (most recent call last):",
    '  File "/home/u/train.py", line 4, in <module>',
    "    strategy = tf.distribute.MultiWorkerMirroredStrategy()",
    "RuntimeError: Collective ops must be configured at program startup",
]
COLLATERAL = [
    "Traceback (most recent call last):",
    '  File "/home/u/train.py", line 9, in <module>',
    "    model.fit(data)",
    "tensorflow.python.framework.errors_impl.UnavailableError: Collective ops is aborted by: peer is gone",
]
ORDINARY = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "    x", "KeyError: 'x'"]
TOO_LATE = ["strategy-too-late"]

# Of worker:1, which is the second one, how these write each line.
FORMS: dict[str, Callable[[int, str], str]] = {
    "clusterkit up": lambda task, line: f"worker:{task} │ {line}",
    "wide names": lambda task, line: f"worker:{task}    │ {line}",
    "in color": lambda task, line: f"\x1b[0;36mworker:{task} │ \x1b[0m{line}",
    "clusterkit logs --timestamps": lambda task, line: f"worker:{task} │ 2026-11-22T08:01:15.123+01:00 {line}",
    "kubectl logs --prefix": lambda task, line: f"[pod/train-worker-{task}-x7k2p/tensorflow] {line}",
    "with --timestamps": lambda task, line: f"[pod/worker-{task}/tf] 2026-11-22T08:01:15.123456789Z {line}",
    "docker compose": lambda task, line: f"worker-{task}  | {line}",
}
NAMELESS: dict[str, Callable[[int, str], str]] = {
    "mpirun": lambda task, line: f"[1,{task}]<stderr>:{line}",
    "horovodrun with Gloo": lambda task, line: f"[{task}]<stderr>:{line}",
    "srun --label": lambda task, line: f"{task}: {line}",
    "torchrun": lambda task, line: f"[default{task}]:{line}",
    "ray": lambda task, line: f"(Train pid={task + 70}, ip=10.0.0.1) {line}",
}


def told(*lines: str) -> tuple[str, list[str]]:
    """The task that failed first, and the rows that fit."""
    log = explain_log(["\n".join([*lines, ""]).encode()])
    return log.evidence.first.name, [explanation.row for explanation in log.explanations]


def both(form: Callable[[int, str], str], first: list[str], second: list[str]) -> list[str]:
    """The lines of two workers, mixed as they came: worker:1 is a line ahead."""
    pairs = zip(["step 1", *first], [*second, "bye"], strict=True)
    return [line for left, right in pairs for line in (form(1, right), form(0, left))]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_the_lines_of_tasks_are_told_apart(form: Callable[[int, str], str]) -> None:
    """The first own failure is explained, not its consequence in another task, even if that is written first."""
    assert told(*both(form, COLLATERAL, OWN)) == ("worker:1", TOO_LATE)
    assert told(*both(form, OWN, COLLATERAL)) == ("worker:0", TOO_LATE)
    assert told(*both(form, COLLATERAL, ORDINARY)) == ("worker:1", [])


@pytest.mark.parametrize("form", NAMELESS.values(), ids=NAMELESS)
def test_prefixes_without_names(form: Callable[[int, str], str]) -> None:
    """The lines are put together all the same."""
    assert told(*both(form, COLLATERAL, OWN))[1] == TOO_LATE
    assert told(*both(form, OWN, COLLATERAL))[1] == TOO_LATE


def test_lines_as_json() -> None:
    """As `clusterkit logs --json` prints them."""
    assert told(*both(lambda task, line: f'{{"t": 1.5, "task": "worker:{task}", "attempt": 1, "line": "{line}"}}',
                      COLLATERAL, [line.replace('"', "'") for line in OWN])) == ("worker:1", TOO_LATE)  # fmt: skip


def test_a_log_without_prefixes() -> None:
    """It may be of one task, or of several, one after the other."""
    assert told(*OWN) == ("a task", TOO_LATE)
    assert told(*COLLATERAL, *OWN) == ("a task", TOO_LATE)
    assert told(*ORDINARY, *COLLATERAL)[1] == []
    assert told(*ORDINARY, "handled", *OWN)[1] == TOO_LATE


@pytest.mark.parametrize("time", ["2023/10/26 12:12:20", "2021-11-17 12:30:26,812", "2021-11-17T12:30:26.8Z"])
def test_times_before_the_lines(time: str) -> None:
    """They do not belong to the traceback. TensorFlow's own lines begin with a time, too, which says what they are."""
    assert told(*(f"{time} {line}" for line in OWN))[1] == TOO_LATE
    info = (
        "2018-03-02 08:50:57.918293: I tensorflow/core/x.cc:221] Collective ops must be configured at program startup"
    )
    assert told(info, *ORDINARY)[1] == []


def test_the_final_report_repeats_lines() -> None:
    """They are not counted again, or the cause would come last."""
    lines = both(FORMS["clusterkit up"], COLLATERAL, OWN)
    for margin in ("    worker:0 │ ", "    │ "):
        assert told(*lines, *(f"{margin}{line}" for line in ORDINARY)) == ("worker:1", TOO_LATE)


def test_an_error_that_was_handled_long_ago_is_none() -> None:
    """The program went on after it."""
    assert told(*OWN, *(f"step {n}" for n in range(100)))[1] == TOO_LATE
    assert told(*OWN, *(f"step {n}" for n in range(500)))[1] == []


def test_chained_errors_are_one() -> None:
    """The first of them is what happened."""
    chained = "During handling of the above exception, another exception occurred:"
    assert told(*OWN, "", chained, "", *ORDINARY)[1] == TOO_LATE
    assert told(*OWN, *ORDINARY)[1] == TOO_LATE  # of two tasks, the earlier one


def test_the_restart_counts_that_ended_the_job() -> None:
    """Of each task the last failure."""
    form = FORMS["clusterkit up"]
    assert told(*(form(1, line) for line in [*OWN, "again", *ORDINARY])) == ("worker:1", [])


def test_a_log_in_pieces() -> None:
    """However the bytes arrive."""
    data = "\n".join(both(FORMS["clusterkit up"], COLLATERAL, OWN)).encode()
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    assert [one.row for one in explain_log(pieces).explanations] == TOO_LATE


@given(some.lists(some.binary()))
def test_any_bytes_are_a_log(chunks: list[bytes]) -> None:
    """No error, and no explanation either."""
    assert explain_log(chunks).explanations == []


WORDS = [
    "worker:0 │ ",
    "[pod/worker-1/x] ",
    "1: ",
    "[default0]: ",
    *OWN,
    *COLLATERAL,
    "\n",
    "\r",
    "\x1b[31m",
    '{"t": 1}',
]


@given(some.lists(some.sampled_from(WORDS) | some.text(max_size=20), max_size=60))
def test_any_order_of_pieces_is_a_log(parts: list[str]) -> None:
    """No error, whatever is mixed with what looks like a log."""
    explain_log(["".join(parts).encode(errors="replace")])


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.id)
def test_no_pattern_takes_long(row: Row) -> None:
    """A log can hold what makes an expression try again and again, such as the beginning of its message."""
    seeds = [row.title, row.title[: len(row.title) // 2], "a", "'", " ", "(", "1", "tf."]
    text = "\n".join((seed * LONGEST_LINE)[:LONGEST_LINE] for seed in seeds * (MOST // len(seeds)) if seed)
    before = time.process_time()
    re.search(row.seen, text, re.MULTILINE)
    assert time.process_time() - before < 2


@pytest.mark.slow
def test_a_long_line_and_a_long_log() -> None:
    """Ten megabytes without an end of line, and many sources; the memory that is kept is bounded."""
    chance = random.Random(1)
    noise = [chance.randbytes(1 << 16) for _ in range(16)]
    log = [b"x" * 10_000_000, b"\n", *noise, *(f"worker:{n % 500} │ {n}\n".encode() for n in range(200_000))]
    assert explain_log([*log, "\n".join(OWN).encode()]).explanations[0].row == TOO_LATE[0]


def test_a_cancelled_closure_is_explained_by_the_closure_that_failed() -> None:
    """The exception says only that closures were cancelled; without a failed closure, it is the error."""
    failed = "ERROR:tensorflow: /job:worker/task:1 encountered the following error when processing closure: "
    why = [f"{failed}OutOfRangeError():Graph execution error:", "End of sequence"]
    raised = ["Traceback (most recent call last):", '  File "a.py", line 3, in <module>', "a.b.CancelledError: stopped"]
    assert error_text(["step 1", *why, "more", *raised]) == ("\n".join([*why, "more", *raised]), "step 1")
    gone = [f"{failed}UnavailableError():Socket closed"]
    assert error_text([*gone, *raised]) == ("\n".join(raised), gone[0])
    other = [*raised[:2], "ValueError: mine"]
    assert error_text([*why, *other])[0] == "\n".join(other)


def test_a_traceback_from_windows_is_read_with_slashes() -> None:
    """Rows look for places such as `/keras/`; the rest of the log keeps its backslashes."""
    frame = '  File "C:\\venv\\keras\\a.py", line 3, in b'
    text, _ = error_text(["Traceback (most recent call last):", frame, "ValueError: a\\b"])
    assert text.splitlines()[1:] == ['  File "C:/venv/keras/a.py", line 3, in b', "ValueError: a\\b"]
