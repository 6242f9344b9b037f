"""Programs that a command starts one after the other report to the same attempt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusterkit.backends.local.programs import MOST_PROGRAMS, Programs, Sender, sender_of
from clusterkit.backends.local.reports import parse_report
from clusterkit.words.events import Checkpointed, Progressed, Resumed
from tests.histories import task
from tests.noise import Noise

WORKER = task("worker:0")


ALIVE = 70  # processes below are running


def told(*reports: tuple[Any, ...]) -> list[int | str | None]:
    """What becomes of reports, each (pid, attempt, step or kind, command line): a step, another report's kind, or None.

    Without a command line, each program has its own.
    """
    programs = Programs(lambda process: process < ALIVE)
    return [shown(programs, *report) for report in reports]


def shown(programs: Programs, process: int, attempt: int, what: int | str, program: int | None = None) -> Any:
    """What becomes of a report."""
    members: dict[str, Any] = {
        "strategy": {"strategies": [], "cluster": 0, "distributed": False, "training": "fit"},
        "phase": {"phase": "evaluating", "begun": True},
    }
    kind, _, step = str(what).partition(" ")
    own = members.get(kind, {"step": int(step or kind) if kind.isdecimal() or step else 0})
    if kind == "saved":
        kind, own = "checkpoint", {**own, "path": "/c"}
    elif kind.isdecimal():
        kind = "progress"
    sender = {"process": process, "program": process if program is None else program}
    line = json.dumps({"kind": kind, "attempt": attempt, **sender, **own}, separators=(",", ":")).encode()
    known = sender_of(line)
    assert known == Sender(**sender)
    report = parse_report(WORKER, line)
    assert report is not None
    event = programs.combine(known, report)
    if isinstance(event, Progressed):
        return event.step
    if isinstance(event, Checkpointed | Resumed):
        return f"{type(event).__name__} {event.step}"
    return None if event is None else type(event).__name__


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([(7, 1, 3), (7, 1, 5)], [3, 5]),
        ([(7, 1, 200), (8, 1, 2), (8, 1, 10)], [200, 202, 210]),
        ([(7, 1, 200), (8, 1, 2), (7, 1, 201), (8, 1, 3)], [200, 202, 203, 204]),
        ([(7, 1, 5), (7, 1, 2), (8, 1, 1)], [5, 2, 6]),
        ([(7, 1, "strategy"), (7, 1, 5), (8, 1, "strategy"), (8, 1, "phase")], ["TrainsWith", 5, None, "PhaseChanged"]),
        ([(8, 1, "strategy"), (7, 1, "strategy"), (7, 1, 5)], ["TrainsWith", "TrainsWith", 5]),
    ],
)  # fmt: skip
def test_the_steps_of_programs_add_up(reports: list[tuple[Any, ...]], expected: list[int | str | None]) -> None:
    """One after the other or at once. An evaluation after the training does not say how the task trained."""
    assert told(*reports) == expected


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([(71, 1, 100, 1), (72, 1, 3, 1)], [100, 103]),
        ([(11, 1, 100, 1), (12, 1, 101, 1), (11, 1, 102, 1)], [100, 101, 102]),
        ([(11, 1, 100, 1), (12, 1, 101, 2), (11, 1, 102, 1)], [100, 201, 203]),
    ],
)
def test_processes_with_the_same_command_line_at_once_are_one_program(
    reports: list[tuple[Any, ...]], expected: list[int]
) -> None:
    """As `mpirun` starts them. One after the other, as in a loop of the script, their steps add up."""
    assert told(*reports) == expected


FIRST = [(71, 1, 100, 1), (71, 1, "saved 100", 1), (72, 1, "resumed 0", 2), (72, 1, 50, 2), (72, 1, "saved 50", 2)]
SEEN = [100, "Checkpointed 100", "Resumed 100", 150, "Checkpointed 150"]


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        ([(81, 2, "resumed 100", 1), (82, 2, "resumed 50", 2), (82, 2, 51, 2)], ["Resumed 100", "Resumed 150", 151]),
        ([(82, 2, "resumed 50", 2), (82, 2, 51, 2)], ["Resumed 150", 151]),
        ([(81, 2, 1, 1), (82, 2, 1, 2)], [1, 2]),
        ([(83, 2, "resumed 0", 3), (83, 2, 1, 3)], ["Resumed 150", 151]),
    ],
)
def test_a_restarted_script_goes_on_where_it_was(again: list[tuple[Any, ...]], expected: list[Any]) -> None:
    """Whether a program that has done its work runs again or is left out: checkpoints of different programs agree."""
    assert told(*FIRST, *again) == SEEN + expected


def test_the_total_is_that_of_the_attempt() -> None:
    """The total of a program is moved as its steps are; of programs that take turns nobody knows it."""
    programs = Programs(lambda process: False)
    programs.combine(Sender(7, 7), Progressed(WORKER, 1, 40))
    assert programs.combine(Sender(8, 8), Progressed(WORKER, 1, 10, {"loss": 1.0}, 50)) == Progressed(
        WORKER, 1, 50, {"loss": 1.0}, 90
    )
    assert programs.combine(Sender(7, 7), Progressed(WORKER, 1, 41, {"loss": 3.0}, 80)) == Progressed(WORKER, 1, 51, {})


def test_hostile_senders() -> None:
    """Any number of programs and processes costs little, and any bytes are no report of one."""
    programs, noise = Programs(lambda process: True), Noise(48)
    steps = [
        programs.combine(Sender(process, process % 3 or process), Progressed(WORKER, 1, 1))
        for process in range(3 * MOST_PROGRAMS)
    ]
    assert steps[-1] is None
    assert len(programs._programs) <= MOST_PROGRAMS
    assert len(programs._running) <= MOST_PROGRAMS
    for _ in range(500):
        assert sender_of(noise.bytes(40)) is None
    for text in (b'{"kind":"progress","attempt":1,"process":-1,', b'{"kind":"progress","attempt":1,"process":"7",'):
        assert sender_of(text) is None
    assert sender_of(b'{"kind":"progress","attempt":1,"process":' + b"9" * 400 + b",") is None
