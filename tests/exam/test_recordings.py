"""Recordings are written in tasks: whatever is in the files, reading them raises nothing."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusterkit.exam.recording import Draw
from clusterkit.exam.recordings import recordings
from clusterkit.words.model import Task, TaskType

KEY = Task(TaskType.WORKER, 1), 2


def write(directory: Path, *lines: object) -> Path:
    """Write lines as the second attempt of worker:1."""
    path = directory / "worker-1.2.jsonl"
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def state(directory: Path, step: int, moment: str) -> dict[str, object]:
    """A line about a state, whose file is written."""
    save: Any = np.savez  # whose annotations do not allow names that are numbers
    save(directory / f"worker-1.2.{step}.npz", **{"0": np.arange(3.0)})
    variables = [{"name": "kernel", "kind": "weight", "on_read": False, "shape": [3]}]
    file = f"worker-1.2.{step}.npz"
    return {"kind": "state", "moment": moment, "step": step, "file": file, "variables": variables}


def test_everything_that_was_recorded(tmp_path: Path) -> None:
    """States, rows, callbacks, logs and notes of an attempt."""
    lines = [state(tmp_path, 3, "begin"), state(tmp_path, 5, "step"), state(tmp_path, 8, "end")]
    more = [
        {"kind": "rows", "step": 4, "rows": ["a", "b"]},
        {"kind": "rows", "step": 4, "rows": ["c"]},
        {"kind": "callbacks", "step": 8, "values": {"EarlyStopping.best": 1.5}},
        {"kind": "logs", "epoch": 0, "step": 4, "values": {"loss": 0.5}},
        {"kind": "note", "text": "no rows"},
        {"kind": "read", "path": "/c/state"},
        {"kind": "table", "path": "/log.csv", "size": 5, "appends": True},
        {"kind": "table", "path": "/log.csv", "size": 9, "appends": False},
        {"kind": "backup", "path": "/backup", "step": 0},
        {"kind": "backup", "path": "/backup", "step": 5},
        {"kind": "shared-backup", "path": "/backup", "step": 5},
        {"kind": "shared-backup", "path": "/other", "step": 8},
        '{"kind": "rows", "step": 5, "ro',  # the task was killed
    ]
    write(tmp_path, *lines, *more)
    recording = recordings(tmp_path)[KEY]
    assert recording.begin is not None
    assert recording.begin.step == 3
    assert list(recording.states) == [5]
    assert recording.end is not None
    assert recording.end.variables["kernel"].values.tolist() == [0.0, 1.0, 2.0]
    assert recording.rows == {4: ("a", "b", "c")}
    assert recording.callbacks == {"EarlyStopping.best": 1.5}
    assert recording.logs == {0: {"loss": 0.5}}
    assert recording.epoch_ends == {0: 4}
    assert recording.notes == ["no rows"]
    assert recording.read == {"/c/state"}
    assert recording.tables == {"/log.csv": (5, False)}
    assert recording.backed_up_fits == [0, 5]
    assert recording.shared_backup == ("/backup", 5)
    assert recording.last_step == 8


def test_what_a_coordinator_saved(tmp_path: Path) -> None:
    """A save whose file is gone, since later ones are kept, is skipped; so is a line that nobody would write."""
    lines = [
        {**state(tmp_path, 0, "first"), "kind": "first"},
        {**state(tmp_path, 1, ""), "kind": "save", "scheduled": 20, "pending": 3},
        {"kind": "save", "scheduled": 10, "pending": 0, "file": "worker-1.2.gone.npz", "variables": []},
        {**state(tmp_path, 2, ""), "kind": "save", "scheduled": -1, "pending": "x"},
        {"kind": "changed-after-save", "scheduled": 20, "name": "kernel"},
        {"kind": "changed-after-save", "scheduled": [], "name": "kernel"},
        {"kind": "scheduled", "number": 60},
        {"kind": "scheduled", "number": None},
    ]
    write(tmp_path, *lines)
    recording = recordings(tmp_path)[KEY]
    assert recording.first is not None
    assert [(save.scheduled, save.pending) for save in recording.saves] == [(20, 3)]
    assert recording.saves[0].state.variables["kernel"].values.tolist() == [0.0, 1.0, 2.0]
    assert recording.changed_after_save == {20: "kernel"}
    assert recording.scheduled == 60


def test_steps_that_were_recounted_are_dropped(tmp_path: Path) -> None:
    """Those that had been counted by reports, before an optimizer counted its first step."""
    early = [{"kind": "rows", "step": step, "rows": [f"row {step}"]} for step in (1, 2)]
    write(
        tmp_path, *early, state(tmp_path, 2, "step"), {"kind": "recounted", "step": 0},
        {"kind": "rows", "step": 1, "rows": ["row 1", "row 2"]}, {"kind": "reported", "step": 1, "number": 2},
        {"kind": "reported", "step": 1, "number": 3}, {"kind": "reported", "step": 4, "number": 1},
        {"kind": "reported", "step": "x", "number": 3},
        {"kind": "followed", "step": 1}, {"kind": "draw", "where": "data", "name": "flip", "stateful": True},
    )  # fmt: skip
    recording = recordings(tmp_path)[KEY]
    assert (recording.rows, recording.states) == ({1: ("row 1", "row 2")}, {})
    assert [recording.shown(step) for step in (1, 2, 4)] == [2, 2, 4]  # not the number of an epoch
    assert recording.followed == {1}
    assert recording.draws == [Draw("flip", True, True)]


@pytest.mark.parametrize(
    "line",
    [
        "[]\n", "1\n", "null\n", '{"kind": []}\n', '{"kind": "rows", "step": true, "rows": ["a"]}\n',
        '{"kind": "rows", "step": -1, "rows": []}\n', '{"kind": "rows", "step": 1, "rows": 5}\n',
        '{"kind": "state", "step": 1}\n', '{"kind": "state", "step": 1, "file": "missing.npz", "variables": []}\n',
        '{"kind": "state", "step": 1, "file": "../../etc/passwd", "variables": [{}]}\n',
        '{"kind": "state", "step": 1, "file": 5, "variables": 7}\n', '{"kind": "callbacks", "values": ["a"]}\n',
        '{"kind": "logs", "epoch": "x", "values": {}}\n', '{"kind": "note", "text": 5}\n',
        '{"kind": "table", "path": "a", "size": -1}\n', '{"kind": "shared-backup", "path": 5, "step": 1}\n',
        "[" * 100_000 + "\n",
    ],
)  # fmt: skip
def test_an_invalid_line_is_left_out(tmp_path: Path, line: str) -> None:
    """And the lines after it are read."""
    write(tmp_path, line, {"kind": "rows", "step": 2, "rows": ["a"]})
    recording = recordings(tmp_path)[KEY]
    assert (recording.rows, recording.states, recording.notes) == ({2: ("a",)}, {}, [])


def test_random_bytes(tmp_path: Path) -> None:
    """In lines and in files with values, also in those that begin well."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    good = json.dumps(state(tmp_path, 1, "step")).encode()
    values = tmp_path / "worker-1.2.1.npz"
    whole = values.read_bytes()
    for _ in range(200):
        noise = chance.randbytes(chance.randrange(200))
        cut = chance.randrange(len(good))
        (tmp_path / "worker-1.2.jsonl").write_bytes(good[:cut] + noise + good[cut:] + b"\n" + good + b"\n")
        at = chance.randrange(len(whole))
        values.write_bytes(whole[:at] + noise + whole[at + len(noise) * chance.randrange(2) :])
        recordings(tmp_path)


def test_files_of_others_are_ignored(tmp_path: Path) -> None:
    """Only those that are named after an attempt of a task are read."""
    for name in ("notes.jsonl", "worker-x.1.jsonl", "boss-0.1.jsonl", "worker-0.jsonl"):
        (tmp_path / name).write_text("{}\n")
    assert recordings(tmp_path) == {}
    assert recordings(tmp_path / "missing") == {}
