"""What the tasks of a run use: written, read once, bounded, and of whatever else is in the file."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from clusterkit.store import usage
from clusterkit.store.usage import UsageLog, UsageReader, UsageSample, growth_of, recent_growth
from clusterkit.words.model import Task
from tests.histories import task

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


MB = 1 << 20
START = [30, 210, 340, 400, 410]


@pytest.mark.parametrize(
    ("megabytes", "grown"),
    [
        ([], None),
        ([400], None),
        (START, None),  # an import of TensorFlow
        ([*START, *[415] * 60], None),
        ([*START, *range(430, 2430, 40)], (910, 2350, 72.0)),  # 20 MB a step
        ([*START, *range(430, 2430, 40), *[2400] * 30], (950, 2390, 72.0)),  # and then it stalls
        ([*START, *range(430, 2430, 40), 0, 0], (910, 2350, 72.0)),  # and then it is gone
        ([*START, *[420] * 30, *[1700] * 30], None),  # one jump, such as a cache that is filled
        ([*START, *[420, 900] * 30], None),  # up and down
        ([*START, *range(430, 520, 2)], None),  # too little
        ([*START, *range(430, 2430, 40), 0, *START], None),  # of an earlier attempt
        ([*START, *range(430, 2430, 40), *START, *range(430, 2430, 40)], (910, 2350, 72.0)),
        ([3000, 3100, 3200, 3300, 3400, 3500], None),  # not half as much again
    ],
)
def test_memory_that_grows_steadily(megabytes: list[int], grown: tuple[int, int, float] | None) -> None:
    """In the newest attempt, after its start; samples are two seconds apart."""
    found = growth_of([(2.0 * number, size * MB) for number, size in enumerate(megabytes)])
    assert (None if found is None else (found.first // MB, found.last // MB, found.seconds)) == grown


def test_growth_is_read_from_the_file(tmp_path: Path) -> None:
    """Of one task; a file that is missing or damaged has none."""
    log = UsageLog(tmp_path / "usage.jsonl")
    for number in range(40):
        used = {task("worker:0"): (50.0, (400 + 50 * number) * MB), task("worker:1"): (50.0, 400 * MB)}
        log.add(UsageSample(1000.0 + 2 * number, used, {}))
    with (tmp_path / "usage.jsonl").open("a") as file:
        file.write("no JSON\n")
    assert str(recent_growth(tmp_path / "usage.jsonl", task("worker:0"))) == "grew from 1050 MB to 2350 MB within 52 s"
    assert recent_growth(tmp_path / "usage.jsonl", task("worker:1")) is None
    assert recent_growth(tmp_path / "missing", task("worker:0")) is None
