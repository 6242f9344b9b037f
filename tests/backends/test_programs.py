"""Programs that a command starts one after the other report to the same attempt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusterkit.backends.local.programs import MOST_PROGRAMS, Programs, process_of
from clusterkit.backends.local.reports import parse_report
from clusterkit.words.events import Progressed
from tests.histories import task
from tests.noise import Noise

WORKER = task("worker:0")


def told(*reports: tuple[Any, ...]) -> list[int | str | None]:
    """What becomes of reports, each (pid, attempt, step or kind): a step, the kind of another report, or None."""
    programs = Programs()
    return [shown(programs, *report) for report in reports]


def shown(programs: Programs, process: int, attempt: int, what: int | str) -> int | str | None:
    """What becomes of a report."""
    members = {
        "strategy": {"strategies": [], "cluster": 0, "distributed": False, "training": "fit"},
        "phase": {"phase": "evaluating", "begun": True},
    }
    kind, own = ("progress", {"step": what}) if isinstance(what, int) else (what, members[what])
    line = json.dumps({"kind": kind, "attempt": attempt, "process": process, **own}, separators=(",", ":")).encode()
    assert process_of(line) == process
    report = parse_report(WORKER, line)
    assert report is not None
    event = programs.combine(process, report)
    return event.step if isinstance(event, Progressed) else None if event is None else type(event).__name__


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([(7, 1, 3), (7, 1, 5)], [3, 5]),
        ([(7, 1, 200), (8, 1, 2), (8, 1, 10)], [200, 202, 210]),
        ([(7, 1, 200), (8, 1, 2), (7, 1, 201), (8, 1, 3)], [200, 202, None, 203]),
        ([(7, 1, 200), (8, 2, 2)], [200, 2]),
        ([(7, 1, 5), (7, 1, 2), (8, 1, 1)], [5, 2, 6]),
        ([(7, 1, "strategy"), (7, 1, 5), (8, 1, "strategy"), (8, 1, "phase")], ["TrainsWith", 5, None, "PhaseChanged"]),
        ([(8, 1, "strategy"), (7, 1, "strategy"), (7, 1, 5)], ["TrainsWith", "TrainsWith", 5]),
    ],
)  # fmt: skip
def test_the_steps_of_programs_add_up(reports: list[tuple[Any, ...]], expected: list[int | str | None]) -> None:
    """An evaluation after the training does not say how the task trained; a new attempt begins at its own step."""
    assert told(*reports) == expected


def test_the_total_is_that_of_the_attempt() -> None:
    """The total of a program is moved as its steps are."""
    programs = Programs()
    programs.combine(7, Progressed(WORKER, 1, 40))
    assert programs.combine(8, Progressed(WORKER, 1, 10, {"loss": 1.0}, 50)) == Progressed(
        WORKER, 1, 50, {"loss": 1.0}, 90
    )


def test_hostile_pids() -> None:
    """Any number of programs costs little, and any bytes are no report of one."""
    programs, noise = Programs(), Noise(48)
    for process in range(3 * MOST_PROGRAMS):
        programs.combine(process, Progressed(WORKER, 1, 1))
    assert len(programs.processes) == MOST_PROGRAMS
    for _ in range(500):
        assert process_of(noise.bytes(40)) is None
    for text in (b'{"kind":"progress","attempt":1,"process":-1,', b'{"kind":"progress","attempt":1,"process":"7",'):
        assert process_of(text) is None
    assert process_of(b'{"kind":"progress","attempt":1,"process":' + b"9" * 400 + b",") is None
