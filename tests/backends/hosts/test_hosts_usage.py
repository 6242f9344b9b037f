"""What agents say of their tasks and GPUs: merged, at a bounded rate, and refused where no agent says it."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path

import pytest

from clusterkit.backends.hosts.usage import HostsUsage
from clusterkit.backends.link import messages as ms
from clusterkit.store.usage import EVERY, UsageLog, UsageReader
from tests.histories import task

TASKS = [task("worker:0"), task("worker:1"), task("ps:0")]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic time."""
    at = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    return at


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of the run's samples."""
    return tmp_path / "usage"


def take(usage: HostsUsage, message: dict[str, object]) -> None:
    """Take a message as it came over the connection."""
    said = ms.from_agent(json.loads(json.dumps(message)))
    if isinstance(said, ms.Used):
        usage.add("n1", said, TASKS)


def test_samples_of_hosts_become_samples_of_the_run(now: list[float], file: Path) -> None:
    """The newest of each task; that of a host which sends nothing any more is left out."""
    usage = HostsUsage(UsageLog(file))
    for step in range(8):
        now[0] = 100 + EVERY * step
        usage.add("n1", ms.Used({TASKS[0]: (10.0 + step, 1000)}, {"0": (70.0, step)}), TASKS)
        if step < 2:
            now[0] += 0.5
            usage.add("n/2", ms.Used({TASKS[1]: (50.0, 2000)}, {"0": (3.0, 4)}), TASKS)
    samples = UsageReader(file).new()
    assert [sample.tasks[TASKS[0]] for sample in samples] == [(10.0 + step, 1000) for step in range(8)]
    assert [TASKS[1] in sample.tasks for sample in samples] == [False, *[True] * 4, *[False] * 3]
    assert samples[1].gpus == {"0 on n1": (70.0, 1), "0 on n_2": (3.0, 4)}
    assert samples[-1].gpus == {"0 on n1": (70.0, 7)}


def test_a_task_that_has_ended_is_not_in_the_next_sample(now: list[float], file: Path) -> None:
    """Its host says so by leaving it out; the sample of another host does not bring it back."""
    usage = HostsUsage(UsageLog(file))
    for tasks in ({TASKS[0]: (10.0, 1), TASKS[2]: (5.0, 1)}, {TASKS[0]: (10.0, 1)}, {}):
        usage.add("n1", ms.Used(tasks), TASKS)
        now[0] += EVERY
        usage.add("n2", ms.Used({TASKS[1]: (1.0, 1)}), TASKS)
        now[0] += EVERY
    found = [{str(one) for one in sample.tasks} for sample in UsageReader(file).new()]
    assert found[1::2] == [{"worker:0", "worker:1", "ps:0"}, {"worker:0", "worker:1"}, {"worker:1"}]


def test_a_sample_is_as_old_as_the_oldest_of_its_hosts(
    now: list[float], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a task whose process has begun since then can be told from the one that was sampled."""
    usage, wall = HostsUsage(UsageLog(file)), [1000.0]
    monkeypatch.setattr(time, "time", lambda: wall[0])
    usage.add("n1", ms.Used({TASKS[0]: (10.0, 1)}), TASKS)
    now[0], wall[0] = now[0] + EVERY, 1000 + EVERY
    usage.add("n2", ms.Used({TASKS[1]: (1.0, 1)}), TASKS)
    assert [sample.wall for sample in UsageReader(file).new()] == [1000.0, 1000.0]


def test_a_flood_of_messages_is_no_flood_of_samples(now: list[float], file: Path) -> None:
    """A thousand messages in six seconds."""
    usage = HostsUsage(UsageLog(file))
    for number in range(1000):
        now[0] = 100 + 6 * number / 1000
        usage.add(f"n{number % 3}", ms.Used({TASKS[number % 3]: (1.0, 1)}), TASKS)
    assert 3 <= len(UsageReader(file).new()) <= 5


@pytest.mark.parametrize(
    "gpus", [{"x": [1.0, 2]}, {"1000": [1.0, 2]}, {"-1": [1.0, 2]}, {"0": [1.0]}, {"0": [-1, 2]}, 7]
)
def test_gpus_that_no_agent_has_are_refused(file: Path, gpus: object) -> None:
    """Nothing is written of them either."""
    with pytest.raises(ms.BadMessage):
        take(HostsUsage(UsageLog(file)), {"is": "Used", "tasks": {}, "gpus": gpus})
    assert not file.exists()


@pytest.mark.parametrize(
    "tasks",
    [
        {"worker:7": [1.0, 2]}, {"worker:0": [1.0]}, {"worker:0": [1.0, 2, 3]}, {"worker:0": [-1.0, 2]},
        {"worker:0": [10**400, 1]}, {"worker:0": [float("nan"), 2]}, {"worker:0": [1.0, float("inf")]},
        {"worker:0": [1e300, 2]},
        {"worker:0": [True, 2]}, {"worker:0": "12"}, {"nobody": [1.0, 2]}, [], None,
    ],
)  # fmt: skip
def test_what_no_agent_says_is_refused(file: Path, tasks: object) -> None:
    """Nothing is written, and the connection ends with it."""
    with pytest.raises(ms.BadMessage):
        take(HostsUsage(UsageLog(file)), {"is": "Used", "tasks": tasks})
    assert not file.exists()


def test_random_bytes_are_a_bad_message_or_a_sample(now: list[float], file: Path) -> None:
    """Whatever is in a message, the file has samples of the job's tasks alone."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance, usage = random.Random(seed), HostsUsage(UsageLog(file))
    text = json.dumps(ms.encode(ms.Used({TASKS[0]: (12.5, 4096), TASKS[2]: (0.0, 1)}, {"3": (5.0, 6)}))).encode()
    refused = 0
    for _ in range(3000):
        now[0] += EVERY
        data = bytearray(text)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.choice((chance.randrange(256), *b'0123456789eE-[]{}":,'))
        try:
            message = json.loads(data)
            take(usage, message if isinstance(message, dict) else {})
        except (ms.BadMessage, ValueError):
            refused += 1
    found = UsageReader(file).new()
    assert refused > 1000
    assert {one for sample in found for one in sample.tasks} <= set(TASKS)
    assert all(re.fullmatch(r"\d{1,3} on n1", name) for sample in found for name in sample.gpus)
