"""What the tasks of a run use: written, read once, bounded, and of whatever else is in the file."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from clusterkit.store import usage
from clusterkit.store.usage import UsageLog, UsageReader, UsageSample
from clusterkit.words.model import Task

ONE = UsageSample(
    1.7e9,
    {Task.parse("worker:1"): (12.5, 1 << 30), Task.parse("ps:0"): (0.0, 4096)},
    {"0": (35.0, 1 << 20), "12 on n-1.example": (0.5, 7)},
)


def test_each_sample_is_read_once(tmp_path: Path) -> None:
    """Also one whose line was not complete when somebody looked."""
    file = tmp_path / "usage"
    reader, log = UsageReader(file), UsageLog(file)
    assert reader.new() == []
    log.add(ONE)
    assert (reader.new(), reader.new()) == ([ONE], [])
    with file.open("ab") as opened:
        opened.write(b'{"t":5,"tasks":{"worker:0"')
        opened.flush()
        assert reader.new() == []
        opened.write(b":[1,2]}}\n")
    assert reader.new() == [UsageSample(5.0, {Task.parse("worker:0"): (1.0, 2)}, {})]


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample that does not fit is not written, and none after it."""
    monkeypatch.setattr(usage, "LARGEST", 300)
    log = UsageLog(tmp_path / "usage")
    for _ in range(20):
        log.add(ONE)
    lines = (tmp_path / "usage").read_bytes().splitlines(keepends=True)
    size = sum(map(len, lines))
    assert size <= 300 < size + len(lines[0])
    assert UsageReader(tmp_path / "usage").new() == [ONE] * len(lines)


def test_nothing_is_written_where_that_fails(tmp_path: Path) -> None:
    """A link to another file is not followed, and a missing directory is no error."""
    (tmp_path / "other").write_text("kept")
    (tmp_path / "usage").symlink_to("other")
    for path in (tmp_path / "usage", tmp_path / "nowhere" / "usage"):
        UsageLog(path).add(ONE)
        assert UsageReader(path).new() == []
    assert (tmp_path / "other").read_text() == "kept"


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    """A task may have put one there: nobody waits for it."""
    os.mkfifo(tmp_path / "usage")
    assert UsageReader(tmp_path / "usage").new() == []


@pytest.mark.parametrize(
    "line",
    [
        "null", "[]", "{}", '{"t":"x"}', '{"t":-1}', '{"t":1e300}', '{"t":NaN}', '{"t":true}', '{"t":1,"tasks":7}',
        '{"t":1,"tasks":{"worker":[1,2]}}', '{"t":1,"tasks":{"worker:1":[1]}}', '{"t":1,"tasks":{"worker:1":[-1,2]}}',
        '{"t":1,"tasks":{"worker:1":[NaN,2]}}', '{"t":1,"tasks":{"worker:1":[1e99,2]}}', "[" * 100_000,
        '{"t":1,"tasks":{"worker:' + "9" * 5000 + '":[1,2]}}', '{"t":1,"gpus":{"-1":[1,2],"9999":[1,2],"x":[1,2]}}',
        '{"t":1,"gpus":{"0 on ":[1,2],"0 on a b":[1,2],"0 on n1\\n":[1,2]}}',
        '{"t":1,"tasks":{"worker:1":[' + "9" * 4000 + ",2]}}",
    ],
)  # fmt: skip
def test_what_is_no_sample_adds_nothing(line: str, tmp_path: Path) -> None:
    """It may make an empty sample, and the next line is read all the same."""
    file = tmp_path / "usage"
    file.write_text(f"{line}\n")
    UsageLog(file).add(ONE)
    *before, last = UsageReader(file).new()
    assert last == ONE
    assert not any(sample.tasks or sample.gpus for sample in before)


def test_random_bytes_are_no_samples(tmp_path: Path) -> None:
    """Whatever is in the file: what is read is finite, within bounds and of tasks."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    whole = json.dumps({"t": 5.0, "tasks": {"worker:0": [1.0, 2]}, "gpus": {"0": [3.0, 4]}}).encode() + b"\n"
    for number in range(300):
        data = bytearray(whole * 3)
        for _ in range(chance.randrange(1, 12)):
            data[chance.randrange(len(data))] = chance.choice([*b'0123456789eE.-+",:{}[]\n', chance.randrange(256)])
        if number % 3 == 0:
            data = bytearray(chance.randbytes(500))
        (tmp_path / "usage").write_bytes(data)
        for sample in UsageReader(tmp_path / "usage").new():
            assert 0 <= sample.wall < 1e11
            for percent, memory in (*sample.tasks.values(), *sample.gpus.values()):
                assert 0 <= percent <= usage.GREATEST
                assert 0 <= memory <= usage.GREATEST


def test_cores_are_a_number_of_cores_or_unknown(tmp_path: Path) -> None:
    """As they were written; whatever else stands there is ignored, and so is their absence in older files."""
    file = tmp_path / "usage"
    UsageLog(file).add(ONE._replace(cores=48))
    with file.open("a") as opened:
        for cores in ('"two"', "true", "-1", "0", "1e9", "[2]", "null"):
            opened.write(f'{{"t":5,"tasks":{{}},"cores":{cores}}}\n')
    assert [sample.cores for sample in UsageReader(file).new()] == [48, *[None] * 7]
