"""What a report has of the logs."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from clusterkit.page.report_file import Extract, extract
from clusterkit.store.directory import RunDirectory
from tests.histories import task

BEGAN = 1000.0


class Written:
    """A run whose tasks have written something, as a supervisor notes it."""

    def __init__(self, path: Path) -> None:
        self.run = RunDirectory(path)
        self.run.make()
        self._ends: dict[tuple[str, int], int] = {}

    def write(self, at: float, name: str, data: bytes, attempt: int = 1, noted: bool = True) -> None:
        """A task writes at so many seconds."""
        of, key = task(name), (name, attempt)
        self.run.of_task(of).mkdir(exist_ok=True)
        with self.run.log(of, attempt).open("ab") as log:
            log.write(data)
            self._ends[key] = log.tell()
        if noted:
            with self.run.arrivals.open("a") as file:
                file.write(f"{BEGAN + at:.6f} {name} {attempt} {self._ends[key]}\n")

    def extract(self, *incidents: float, most: int = 1 << 20) -> Extract:
        """A report's part of it."""
        return extract(self.run, BEGAN, incidents, most)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """A run without output."""
    return Written(tmp_path / "run")


def texts(found: Extract) -> list[str]:
    """The lines."""
    return [line["text"] for line in found.lines if "skipped" not in line]


def test_short_logs_are_in_it_as_a_whole(written: Written) -> None:
    """In the order in which the lines were complete, with times and attempts."""
    written.write(1.0, "worker:0", b"one\ntw")
    written.write(2.0, "chief:0", b"between\n")
    written.write(3.0, "worker:0", b"o\n")
    written.write(4.0, "worker:0", b"again", attempt=2)
    found = written.extract()
    assert [(line["t"], line["task"], line["attempt"], line["text"]) for line in found.lines] == [
        (1.0, "worker:0", 1, "one"), (2.0, "chief:0", 1, "between"), (3.0, "worker:0", 1, "two"),
        (None, "worker:0", 2, "again"),
    ]  # fmt: skip
    assert (found.total, found.left_out) == (21, 0)


def test_output_that_was_not_noted_is_in_it(written: Written) -> None:
    """A supervisor that is killed may not note the last of it; and a run may have no notes at all."""
    written.write(1.0, "worker:0", b"noted\n")
    written.write(2.0, "worker:0", b"last words\n", noted=False)
    assert texts(written.extract()) == ["noted", "last words"]
    written.run.arrivals.unlink()
    assert texts(written.extract()) == ["noted", "last words"]


def test_of_long_logs_it_has_the_ends_and_the_incidents(written: Written) -> None:
    """And says how much is left out, where that is."""
    for second in range(1000):
        for name in ("worker:0", "worker:1"):
            written.write(float(second), name, f"{name} at {second} {'x' * 1000}\n".encode())
    found = written.extract(500.0, most=200_000)
    lines = [text.partition(" x")[0] for text in texts(found)]
    assert "worker:0 at 500" in lines
    assert "worker:1 at 496" in lines
    assert lines[-1] == "worker:1 at 999"
    assert "worker:0 at 0" not in lines
    assert "worker:0 at 600" not in lines
    assert len(json.dumps(found.lines)) <= 220_000
    skipped = sum(line.get("skipped", 0) for line in found.lines)
    assert skipped == found.left_out
    assert found.total == sum(len(text) + 1 for text in texts(found)) + skipped
    times = [line["t"] for line in found.lines]
    assert times == sorted(times)


def test_text_that_is_long_as_json_fits_too(written: Written) -> None:
    """A control character is six characters of JSON."""
    written.write(1.0, "worker:0", b"\x01\x02\xff" * 200_000 + b"\nend\n")
    found = written.extract(most=50_000)
    assert len(json.dumps(found.lines)) <= 60_000
    assert texts(found)[-1] == "end"


def test_hostile_files_are_read_or_left(written: Written, tmp_path: Path) -> None:
    """Arrivals and logs of random bytes, links, directories and pipes in their place."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    names: list[Any] = ["worker:0", "chief:0", "ps:7"]
    for number in range(60):
        written.run.arrivals.write_bytes(b"")
        for _ in range(5):
            data = dice.randbytes(dice.randint(0, 300))
            written.write(dice.uniform(-5, 50), dice.choice(names), data, dice.randint(1, 3))
        noted = bytearray(written.run.arrivals.read_bytes())
        for _ in range(dice.randint(0, 30)):
            noted[dice.randrange(len(noted))] = dice.choice(b"0123456789 .:\nworker")
        written.run.arrivals.write_bytes(bytes(noted) + dice.randbytes(number))
        found = written.extract(dice.uniform(-9, 99), most=dice.choice([100, 5000, 1 << 20]))
        json.dumps(found.lines)
        assert all("\x1b[2J" not in line["text"] for line in found.lines)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    of = written.run.of_task(task("worker:5"))
    of.mkdir()
    (of / "attempt-1.log").symlink_to(secret)
    (of / "attempt-2.log").mkdir()
    (of / "attempt-x.log").touch()
    assert not [line for line in written.extract().lines if line["task"] == "worker:5" and line["text"]]
