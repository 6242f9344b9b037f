"""What real programs record, on one worker and on two: the same rows and, up to rounding, the same variables."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(300)]

PROGRAM = CHILDREN / "recorded.py"
STEPS = (0, 1, 2, 3, 8)
Start = Callable[..., Up]
Key = tuple[str, str, int]  # task and attempt as `worker-0.1`, moment, step


class Recorded:
    """All that the tasks of a run have recorded."""

    def __init__(self, run: Up) -> None:
        self.rows: dict[str, dict[int, list[str]]] = defaultdict(dict)  # by the task and attempt: those of each step
        self.states: dict[Key, dict[str, tuple[dict[str, Any], Any]]] = {}  # each variable's description and value
        self.others: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for file in sorted((run.run / "recorded").glob("*.jsonl")):
            for line in map(json.loads, file.read_text().splitlines()):
                if line["kind"] == "rows":
                    self.rows[file.stem][line["step"]] = line["rows"]
                elif line["kind"] == "state":
                    self.states[file.stem, line["moment"], line["step"]] = values(file.parent / line["file"], line)
                else:
                    self.others[line["kind"]].append(line)

    def rows_of(self, step: int) -> Counter[str]:
        """How often each row was used in a step, by all workers."""
        return Counter(row for steps in self.rows.values() for row in steps.get(step, ()))

    def kinds(self, key: Key) -> Counter[str]:
        """How many variables of each kind a state has."""
        return Counter(about["kind"] for about, _ in self.states[key].values())


def values(file: Path, line: dict[str, Any]) -> dict[str, tuple[dict[str, Any], Any]]:
    """A state's variables by their names."""
    with np.load(file) as arrays:
        return {about["name"]: (about, arrays[str(place)]) for place, about in enumerate(line["variables"])}


def recorded(up: Start, *args: object) -> Recorded:
    """What a run records that succeeds."""
    run = up("--seed", 3, "--restart", "never", *args)
    assert run.wait(200) == 0, run.output[-4000:]
    return Recorded(run)


def differences(first: dict[str, Any], other: dict[str, Any], tolerance: float) -> list[str]:
    """The variables whose values differ, but for those of which each replica has a value of its own."""
    assert first.keys() == other.keys()
    return [
        f"{name}: {np.abs(value - other[name][1]).max()}"
        for name, (about, value) in first.items()
        if not about["on_read"] and not np.allclose(value, other[name][1], rtol=0, atol=tolerance)
    ]


@pytest.mark.parametrize(
    ("way", "options", "steps", "metrics"),
    [
        ("fit", (), 14, 4),
        pytest.param("loop", (), 14, 0, marks=pytest.mark.long),
        pytest.param("called", (), 6, 2, marks=pytest.mark.long),
        pytest.param("fit", ("--keras", "2"), 14, 2, marks=pytest.mark.long),
    ],
)
def test_two_workers_record_what_one_does(
    up: Start, tmp_path: Path, way: str, options: tuple[str, ...], steps: int, metrics: int
) -> None:
    """Each step's rows, in whichever worker, and the variables after each step that was asked for."""
    record = ("--record", ",".join(map(str, STEPS)), *options, PROGRAM, tmp_path / "out", way)
    one, two = recorded(up, "--workers", 1, *record), recorded(up, "--workers", 2, *record)
    assert [one.rows_of(step) for step in range(steps + 2)] == [two.rows_of(step) for step in range(steps + 2)]
    assert all(len(rows) == len(two.rows["worker-1.1"]) == steps for rows in one.rows.values())
    every = sum((two.rows_of(step) for step in range(steps + 1)), Counter())
    assert (len(every), set(every.values())) == ((48, {1}) if way == "called" else (50, {2}))
    moments = [*(("step" if step else "begin", step) for step in STEPS if step <= steps), ("end", steps)]
    assert [key[1:] for key in one.states] == moments
    for moment in moments:
        alone = one.states["worker-0.1", *moment]
        first, second = (two.states[worker, *moment] for worker in ("worker-0.1", "worker-1.1"))
        assert differences(alone, first, 1e-5) == differences(first, second, 0.0) == []
    kinds = two.kinds(("worker-0.1", *moments[-1]))
    assert (kinds["weight"], kinds["counter"] > 0, kinds["learning-rate"] > 0) == (4, True, True)
    assert kinds["optimizer"] == (0 if way == "called" else 8)
    assert not one.others["note"]
    if way == "fit":
        assert [line["values"]["Waiting.batches"] for line in one.others["callbacks"]] == [1, 2, 3, 8, 14]
        assert one.others["callbacks"][-1]["values"]["EarlyStopping.best"] == one.others["logs"][-1]["values"]["loss"]
        assert [(line["epoch"], line["step"]) for line in one.others["logs"]] == [(0, 7), (1, 14)]


def test_a_recorded_run_computes_what_the_next_one_does(up: Start, tmp_path: Path) -> None:
    """Bit for bit, without a seed of the program's, in eager steps; and a tape watches what it would watch."""
    first, again = (recorded(up, "--record", "0,1,2", PROGRAM, tmp_path / "out", "eager") for _ in range(2))
    assert [key[1:] for key in first.states] == [("begin", 0), ("step", 1), ("step", 2), ("end", 4)]
    assert [differences(state, again.states[key], 0.0) for key, state in first.states.items()] == [[]] * 4
    assert not first.rows
    assert "no training step was computed by Strategy.run" in first.others["note"][0]["text"]


def test_a_program_that_the_recorder_does_not_know_is_not_disturbed(up: Start, tmp_path: Path) -> None:
    """It computes what it computes without; what could not be recorded is noted."""
    found = recorded(up, "--record", "0,1", PROGRAM, tmp_path / "recorded", "odd")
    plain = up("--restart", "never", PROGRAM, tmp_path / "plain", "odd")
    assert plain.wait(100) == 0, plain.output[-4000:]
    assert not (plain.run / "recorded").exists()
    with np.load(tmp_path / "recorded.worker:0.npz") as ours, np.load(tmp_path / "plain.worker:0.npz") as theirs:
        assert ours["arr_0"].tobytes() == theirs["arr_0"].tobytes()
    state = found.states["worker-0.1", "end", 0]
    assert {name: about["kind"] for name, (about, _) in state.items()} == {
        "weight": "weight", "StateVar": "random", "late": "weight",
    }  # fmt: skip
    notes = " ".join(line["text"] for line in found.others["note"])
    for expected in ("compiled by XLA", "no dense tensor", "No steps were seen", "label is not recorded"):
        assert expected in notes


@pytest.mark.long
def test_a_coordinators_end_is_recorded(up: Start) -> None:
    """With the variables on the parameter server; its workers and servers record nothing."""
    job = ("--workers", 1, "--ps", 1, "--keras", 2)
    found = recorded(up, *job, "--record", "0,1", CHILDREN / "keras_ps.py")
    assert {(name, moment) for name, moment, _ in found.states} >= {("chief-0.1", "end")}
    assert {name for name, _, _ in found.states} == {"chief-0.1"}
    kinds = found.kinds(("chief-0.1", "end", 10))
    assert (kinds["weight"], kinds["counter"], kinds["learning-rate"]) == (2, 1, 1)
    assert not found.rows
    assert any("computed by other tasks" in line["text"] for line in found.others["note"])


@pytest.mark.long
def test_an_attempt_continues_at_the_step_that_it_has_restored(up: Start) -> None:
    """After a kill in step 17 and a SIGTERM in step 23: with the variables and rows of an undisturbed run."""
    run = up("--workers", 2, "--seed", 3, "--record", "0,16,20,24,40", CHILDREN / "gang_fit.py")
    assert run.wait(200) == 0, run.output[-4000:]
    found = Recorded(run)
    saved, restored = found.states["worker-0.1", "step", 16], found.states["worker-0.2", "begin", 16]
    assert differences(saved, restored, 0.0) == []
    for before, after in zip(range(1, 3), range(2, 4), strict=True):
        last, first = max(found.rows[f"worker-1.{before}"]), min(found.rows[f"worker-1.{after}"])
        assert first <= last + 1
    ended, resumed = found.states["worker-0.2", "end", 23], found.states["worker-0.3", "begin", 23]
    wrong = [one for one in differences(ended, resumed, 0.0) if "checkpointed_runs" not in one]  # TensorFlow's own
    assert wrong == []
