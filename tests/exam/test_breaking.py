"""The watch of the steps after which a task waits: lines may be half written, and hostile."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import cast

import pytest

from clusterkit.api.supervisor import Supervisor
from clusterkit.exam.breaking import FirstRunWatcher, Interruption, _HoldReader
from clusterkit.exam.pace import FirstRun
from clusterkit.store.directory import RunDirectory
from clusterkit.words import wire
from clusterkit.words.events import Checkpointed, Event, Progressed
from clusterkit.words.model import Task, TaskType

SAVED = Checkpointed(Task(TaskType.WORKER, 0), 1, 5, "ckpt-5")
LINE = b'{"kind": "held", "step": 50}\n'


def watch_of(home: Path) -> tuple[_HoldReader, Path]:
    """The watch for step 50 of worker:1, and the file that its first attempt writes."""
    run = RunDirectory(home / "run")
    Path(run.recorded).mkdir(parents=True)
    return _HoldReader(run, Interruption(Task(TaskType.WORKER, 1), 50)), Path(run.recorded) / "worker-1.1.jsonl"


def test_a_line_that_is_written_byte_by_byte_is_read_once_it_is_whole(tmp_path: Path) -> None:
    """However often the file is read meanwhile."""
    watch, file = watch_of(tmp_path)
    assert not watch.is_reached()
    for end in range(len(LINE)):
        file.write_bytes(LINE[:end])
        assert not watch.is_reached()
    file.write_bytes(LINE)
    assert watch.is_reached()
    assert not watch.is_reached()  # not anew: it has been read


def test_only_the_task_and_the_step_count(tmp_path: Path) -> None:
    """In each attempt."""
    watch, file = watch_of(tmp_path)
    file.write_bytes(LINE.replace(b"50", b"5"))
    file.with_name("worker-2.1.jsonl").write_bytes(LINE)
    assert not watch.is_reached()
    file.with_name("worker-1.2.jsonl").write_bytes(LINE)
    assert watch.is_reached()


def test_random_bytes_between_lines(tmp_path: Path) -> None:
    """A line after them is found, and nothing raises."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    watch, file = watch_of(tmp_path)
    file.touch()
    for _ in range(100):
        noise = chance.choice((b'{"kind": "held", ', b"[" * 3000, b"")) + chance.randbytes(chance.randrange(300))
        with file.open("ab") as written:
            written.write(noise.replace(b"50", b"") + b"\n" + LINE)
        assert watch.is_reached()


class EndedRun:
    """A supervisor whose run goes on until it is ended, or for so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks, self.patience = looks, 0.0

    def wait(self, seconds: float) -> bool:
        """The run ends by itself after so many looks."""
        self.looks -= 1
        return self.looks < 0

    def end(self, patience: float) -> None:
        """As `clusterkit down` does."""
        self.patience = patience


@pytest.mark.parametrize(("is_recorded", "steps", "ended"), [(True, 8, True), (False, 8, False), (True, 5, False)])
def test_a_first_run_is_ended_when_it_has_shown_enough(
    is_recorded: bool, steps: int, ended: bool, tmp_path: Path
) -> None:
    """Unless its tasks do not record their steps, since then no later run could be ended after the same one."""
    run = RunDirectory(tmp_path / "run")
    task = Task(TaskType.WORKER, 0)
    events: list[tuple[float, Event]] = [
        (10.0 + 3 * step, Progressed(task, 1, step, {}, 320)) for step in range(1, steps + 1)
    ]
    run.path.mkdir()
    lines = [json.dumps({"t": at, **wire.encode_event(event)}) for at, event in [*events, (25.0, SAVED)]]
    run.journal.write_text("".join(f"{line}\n" for line in lines))
    supervisor = EndedRun(3)
    watcher = FirstRunWatcher(FirstRun(30.0), 2.0, lambda run: is_recorded)
    watcher(cast("Supervisor", supervisor), run)
    assert watcher.has_ended_it is ended
    assert (supervisor.patience > 2.0) is ended
