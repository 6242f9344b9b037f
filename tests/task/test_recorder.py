"""When the recorder records, with stand-ins for TensorFlow: steps of all kinds, the end, and what bounds the files."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from clusterkit.task.patches.recorder import output as recorder_output
from clusterkit.task.patches.recorder import rows as recorder_rows
from clusterkit.task.patches.recorder.callbacks import without_writers
from clusterkit.task.patches.recorder.output import RecordOutput, gang_of, held_of, last_of, steps_of, stop_of
from clusterkit.task.patches.recorder.recorder import Recorder
from clusterkit.task.patches.recorder.state import Registry
from tests.support import load
from tests.task.test_recorder_parts import Own, Plain


def output_in(path: Path) -> RecordOutput:
    """The records of the second attempt of worker:1."""
    env = {"CLUSTERKIT_RECORD": str(path), "CLUSTERKIT_TASK": "worker:1", "CLUSTERKIT_ATTEMPT": "2"}
    return RecordOutput(env)


def lines(path: Path) -> list[dict[str, Any]]:
    """What has been recorded."""
    file = path / "worker-1.2.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize(
    ("text", "steps"), [("0,1,51", {0, 1, 51}), ("7", {7}), ("", set()), (" 3 ,x,4", {3, 4}), ("-1,2", {2})]
)
def test_steps_are_read_leniently(text: str, steps: set[int]) -> None:
    """The supervisor has checked them; a task must not fail because of them."""
    assert steps_of(text) == steps


def test_rows_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out is noted once."""
    monkeypatch.setattr(recorder_output, "MOST_ROWS", 5)
    output = output_in(tmp_path)
    assert [output.has_room_for_rows(2) for _ in range(4)] == [True, True, False, False]
    assert lines(tmp_path) == [{"kind": "note", "text": "Only the first 4 rows are recorded."}]


def test_states_are_bounded_and_the_end_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a file of arrays and a line about them, in the same order."""
    monkeypatch.setattr(recorder_output, "MOST_STATES", 3)
    output = output_in(tmp_path)
    for step in range(4):
        output.write_state("step", step, [({"name": "a"}, np.full(2, step)), ({"name": "b"}, np.float32(0.5))])
    output.write_state("end", 4, [({"name": "a"}, np.zeros(0))])
    states = [line for line in lines(tmp_path) if line["kind"] == "state"]
    assert [state["file"] for state in states] == ["worker-1.2.0.npz", "worker-1.2.1.npz", "worker-1.2.end.npz"]
    assert states[1] | {"variables": 0} == {
        "kind": "state", "moment": "step", "step": 1, "file": "worker-1.2.1.npz", "variables": 0,
    }  # fmt: skip
    with np.load(tmp_path / "worker-1.2.1.npz") as arrays:
        assert {name: value.tolist() for name, value in arrays.items()} == {"0": [1, 1], "1": 0.5}
    assert sum(line["kind"] == "note" for line in lines(tmp_path)) == 2
    assert not [*tmp_path.glob("*.part")]


def test_a_failure_is_a_note(tmp_path: Path) -> None:
    """Once, and never an exception; a fork and a task without a directory write nothing."""
    output = output_in(tmp_path / "new")
    for _ in range(2):
        assert output.guarded("It failed", lambda: 1 / 0) is None
    assert lines(tmp_path / "new") == [{"kind": "note", "text": "It failed: ZeroDivisionError: division by zero"}]
    output.pid += 1
    output.write("note", text="of a fork")
    RecordOutput({}).write("note", text="of another program")
    (tmp_path / "file").touch()
    output_in(tmp_path / "file").write("note", text="of a directory that can't be made")
    assert len(lines(tmp_path / "new")) == 1


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """A recorder of the steps 0, 2 and 5, with an optimizer whose count is `count[0]` and a variable."""
    recorder = Recorder(load, "0,2,5")
    monkeypatch.setattr("clusterkit.task.patches.recorder.recorder.is_eager_main", lambda: True)
    monkeypatch.setattr("atexit.register", lambda call: None)
    recorder.output, recorder.registry = output_in(tmp_path), Registry()
    variable, count = Plain(), [0]
    recorder.registry.add(variable, "w")
    recorder.count, recorder.variable = count, variable  # type: ignore[attr-defined]
    monkeypatch.setattr(recorder.registry, "iterations", lambda: list(count))
    monkeypatch.setattr(recorder.registry, "snapshot", lambda note: [({"name": "w"}, np.array(count))])
    monkeypatch.setattr(recorder.state, "count_of", lambda optimizer: 0 if optimizer is None else count[0])
    monkeypatch.setattr(recorder_rows, "pending", [])
    return recorder


def recorded(path: Path) -> list[tuple[object, ...]]:
    """The moments and rows, in order."""
    return [(line["kind"], line["step"], *line.get("rows", [])) for line in lines(path) if line["kind"] != "note"]


def test_a_call_in_which_an_optimizer_has_counted_is_a_step(made: Recorder, tmp_path: Path) -> None:
    """Not an inner call, nor an evaluation, nor the restoring of a checkpoint between two calls."""
    count: list[int] = made.count  # type: ignore[attr-defined]

    def step(by: int = 1) -> str:
        def inner() -> str:
            count[0] += by
            recorder_rows.pending.append([f"row {count[0]}"])
            return "result"

        return str(made.outermost(lambda: made.outermost(inner)))

    assert made.outermost(lambda: "evaluated") == "evaluated"
    count[0] = 1  # restored
    assert step() == "result"
    step()
    step(4)
    made.end()
    made.end()
    assert recorded(tmp_path) == [
        ("state", 1), ("rows", 2, "row 2"), ("state", 2), ("rows", 3, "row 3"), ("rows", 7, "row 7"),
        ("state", 7), ("state", 7),
    ]  # fmt: skip


def test_a_fit_counts_batches_as_its_optimizer_does(made: Recorder, tmp_path: Path) -> None:
    """From a restored step on; batches that are skipped are no steps, and one without an optimizer counts batches."""
    count: list[int] = made.count  # type: ignore[attr-defined]
    callbacks = SimpleNamespace(model=SimpleNamespace(optimizer=Plain()), callbacks=[Own()])
    count[0] = 3  # restored
    made.begin_fit(callbacks)
    for batch in range(4):
        count[0] += batch > 1
        made.end_batch(callbacks, batch)
    made.end_epoch(0, {"loss": 0.5})
    made.end_fit(callbacks)
    callbacks.model.optimizer = None
    made.begin_fit(callbacks)
    made.batch = -1
    made.end_batch(callbacks, 2)
    assert recorded(tmp_path) == [("state", 3), ("state", 5), ("callbacks", 5), ("logs", 5), ("callbacks", 5)]
    assert made.step == 8


@pytest.mark.parametrize(("restored", "step"), [(3, 3), (8, 8), (1, 3)])
def test_a_second_fit_may_restore_its_own_backup(made: Recorder, restored: int, step: int) -> None:
    """Its steps follow those of the first, and those that were trained before an interruption; they never go back."""
    count: list[int] = made.count  # type: ignore[attr-defined]
    callbacks = SimpleNamespace(model=SimpleNamespace(optimizer=Plain()), callbacks=[])
    made.begin_fit(callbacks)
    for batch in range(3):
        count[0] += 1
        made.end_batch(callbacks, batch)
    made.end_fit(callbacks)
    count[0] = restored
    made.begin_fit(callbacks)
    assert made.step == step
    count[0] += 1
    made.end_batch(callbacks, 0)
    assert made.step == step + 1


def test_a_program_that_ends_within_a_callback_has_made_that_step(made: Recorder, tmp_path: Path) -> None:
    """As one that is told to end does, after it has saved."""
    count: list[int] = made.count  # type: ignore[attr-defined]
    callbacks = SimpleNamespace(model=SimpleNamespace(optimizer=(optimizer := Plain())))
    made.begin_fit(callbacks)
    count[0] = 1
    recorder_rows.pending.append(["a"])
    made.end()
    assert recorded(tmp_path) == [("state", 0), ("rows", 1, "a"), ("state", 1)]
    assert callbacks.model.optimizer is optimizer


def test_steps_that_are_reported_count_where_no_optimizer_does(made: Recorder, tmp_path: Path) -> None:
    """An optimizer's own count comes first."""
    made.report(2)
    made.count[0] = 1  # type: ignore[attr-defined]
    made.report(5)
    assert recorded(tmp_path) == [("state", 2), ("reported", 2)]


def test_steps_before_an_optimizer_counts_are_parts_of_its_first_step(made: Recorder, tmp_path: Path) -> None:
    """As where the gradients of three batches are applied together: no step is recorded twice."""
    count: list[int] = made.count  # type: ignore[attr-defined]

    def batch(number: int) -> None:
        recorder_rows.pending.append([f"row {number}"])
        made.outermost(lambda: "gradients")
        if number % 3 == 0:
            made.outermost(lambda: count.__setitem__(0, count[0] + 1))
        made.report(number)

    for number in range(1, 7):
        batch(number)
    made.end()
    assert recorded(tmp_path) == [
        ("rows", 1, "row 1"), ("rows", 2, "row 2"), ("state", 2),
        ("recounted", 0), ("rows", 1, "row 1", "row 2", "row 3"), ("reported", 1),
        ("rows", 2, "row 4", "row 5", "row 6"), ("state", 2), ("reported", 2), ("state", 2),
    ]  # fmt: skip
    assert [line["number"] for line in lines(tmp_path) if line["kind"] == "reported"] == [3, 6]


def test_a_coordinators_steps_are_read_when_it_joins_and_at_its_end(made: Recorder, tmp_path: Path) -> None:
    """Between them its variables are on servers that others change; after an exception they are not read."""
    made.coordinates = True
    for now in (1, 3, 4):
        made.count[0] = now  # type: ignore[attr-defined]
        made.outermost(lambda: "scheduled")
        made.join()
    made.count[0] = 9  # type: ignore[attr-defined]
    made.end()
    assert recorded(tmp_path) == [("state", 3), ("state", 9)]


def test_a_program_without_steps_still_has_rows_and_an_end(made: Recorder, tmp_path: Path) -> None:
    """It is told what one line would add."""
    recorder_rows.pending.append(["a", "b"])
    made.end()
    assert recorded(tmp_path) == [("rows", 1, "a", "b"), ("state", 0)]
    assert "clusterkit.training.report(step)" in lines(tmp_path)[0]["text"]


@pytest.mark.parametrize(
    ("text", "step"), [("0,1,stop=5", 5), ("stop=20,no-dropout", 20), ("0,1", None), ("stop=", None), ("stop=x", None)]
)
def test_the_last_step_is_read_leniently(text: str, step: int | None) -> None:
    """Without one, the program runs to its own end."""
    assert stop_of(text) == step
    assert last_of(text.replace("stop=", "until=")) == step
    assert last_of(text) is None


def test_a_task_is_held_once_after_a_step(made: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt after the fault makes the step again, and a second pause would only cost time."""
    paused = list[float]()
    monkeypatch.setattr("time.sleep", paused.append)
    assert held_of("0,1,hold=worker-1/7,no-dropout", "worker-0") == set()
    for reported in (6, 7, 8, 7):
        made.held = held_of("0,1,hold=worker-1/7,no-dropout", "worker-1")
        made.hold(reported)
    assert len(paused) == 1
    assert [line["step"] for line in lines(tmp_path) if line["kind"] == "held"] == [7]


def test_a_task_that_can_not_mark_is_held_each_time(tmp_path: Path) -> None:
    """As on a full disk: a pause that is missed would miss the fault."""
    (tmp_path / "file").touch()
    output = output_in(tmp_path / "file")
    assert [output.is_first("held-7") for _ in range(2)] == [True, True]


def ended_after(made: Recorder, last: int) -> list[int]:
    """Let a program end after a step; return the steps at which it would have ended, since it goes on."""
    ends = list[int]()
    made.last = last
    made.first_steps.end_program = lambda recorder: ends.append(recorder.step)
    return ends


def test_a_run_that_has_shown_enough_ends_after_the_step(made: Recorder) -> None:
    """Of a loop that reports nothing."""
    ends, count = ended_after(made, 3), made.count  # type: ignore[attr-defined]
    for now in (1, 2, 3):
        made.outermost(partial(count.__setitem__, 0, now))
    assert ends == [3]


def test_a_program_that_reports_ends_after_the_report(made: Recorder) -> None:
    """So that the supervisor has seen the step, and the checkpoints of the steps before it."""
    ends, count = ended_after(made, 3), made.count  # type: ignore[attr-defined]
    for now in (1, 2, 3):
        made.outermost(partial(count.__setitem__, 0, now))
        assert ends == []
        made.report(now)
    assert ends == [3]


def test_a_fit_ends_after_the_callbacks_of_the_batch(made: Recorder, tmp_path: Path) -> None:
    """What they keep is recorded before."""
    ends, count = ended_after(made, 2), made.count  # type: ignore[attr-defined]
    made.due = frozenset({0, 2})
    callbacks = SimpleNamespace(model=SimpleNamespace(optimizer=Plain()), callbacks=[Own()])
    made.begin_fit(callbacks)
    for batch in range(2):
        count[0] += 1
        made.end_batch(callbacks, batch)
    assert ends == [2]
    assert recorded(tmp_path)[-1] == ("callbacks", 2)


def test_a_coordinator_is_never_ended_by_a_step(made: Recorder) -> None:
    """Other tasks compute its steps, and would go on."""
    ends = ended_after(made, 1)
    made.coordinate()
    made.report(5)
    assert ends == []


@pytest.mark.parametrize(
    ("tf_config", "names"),
    [
        ("", []), ("{}", []), ("[]", []), ("5", []), ('{"cluster": 7}', []), ('{"cluster": {"worker": 7}}', []),
        ('{"cluster": {"worker": ["a:1", "b:1"]}}', ["worker-0", "worker-1"]),
        ('{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}}', ["chief-0", "worker-0"]),
    ],
)  # fmt: skip
def test_the_tasks_that_end_together(tf_config: str, names: list[str]) -> None:
    """Whatever the program has made of TF_CONFIG."""
    assert gang_of(tf_config) == names


def test_a_task_waits_for_its_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And goes on once all have come, or after some time."""
    monkeypatch.setattr(recorder_output, "PATIENCE", 0.0)
    output = output_in(tmp_path)
    output.await_peers(["worker-0", "worker-1"])
    assert [path.name for path in tmp_path.iterdir()] == ["worker-1.stopped"]
    monkeypatch.setattr(recorder_output, "PATIENCE", 1e9)
    (tmp_path / "worker-0.stopped").touch()
    output.await_peers(["worker-0", "worker-1"])


def test_callbacks_that_write_are_left_out(tmp_path: Path) -> None:
    """Also those of classes that inherit from them, and the directories that they have made."""
    checkpoint = type("ModelCheckpoint", (), {"__module__": "keras.src.callbacks.model_checkpoint"})
    own = type("Best", (checkpoint,), {"__module__": "__main__", "_own_directory": str(tmp_path / "workertemp_1")})
    other = type("ModelCheckpoint", (), {"__module__": "__main__"})
    (tmp_path / "workertemp_1").mkdir()
    kept = other()
    assert without_writers([checkpoint(), own(), kept]) == [kept]
    assert not (tmp_path / "workertemp_1").exists()
