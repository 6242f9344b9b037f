"""The watch of the steps after which a task waits: lines may be half written, and hostile."""

from __future__ import annotations

import random
from pathlib import Path

from clusterkit.exam.breaking import Interruption, _HoldReader
from clusterkit.store.directory import RunDirectory
from clusterkit.words.model import Task, TaskType

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
