"""The file `usage.jsonl`: samples of the CPU, memory and GPU use of a run's tasks, one JSON object per line."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from clusterkit.system.exchange import parse_line
from clusterkit.system.files import end_of, open_fd, open_regular
from clusterkit.words.model import Task
from clusterkit.words.wire import LATEST

LARGEST = 1 << 23  # bytes; the maximum size of the file
LONGEST = 1 << 18  # bytes; longer lines are ignored
EVERY = 2.0  # seconds; the minimum time between samples
SLOWDOWN = 1800.0  # in a long run, the time between samples is the run's age divided by this number
MOST_GPUS = 1024  # the maximum number of GPUs, on all hosts together
MOST_CORES = 1 << 16  # the maximum number of cores
GREATEST = 1e15  # percent or bytes; entries of tasks and GPUs with a greater number are ignored
OLD = 15.0  # seconds; an older sample does not show the current use
_GPU = re.compile(r"\d{1,3}(?: on [\w.-]{1,100})?", re.ASCII)
Use = tuple[float, int]  # percent of a core or a GPU, and bytes of memory


def interval(age: float) -> float:
    """Return the seconds between samples of a run that is `age` seconds old."""
    return max(EVERY, age / SLOWDOWN)


class UsageSample(NamedTuple):
    """The CPU and memory use of each task, and the use of each GPU, at the wall time `wall`.

    A GPU's name is its index, with the host if tasks run on hosts: `0`, or `0 on n1`.
    `cores` is the number of cores that the tasks may use; None if the number was not recorded.
    """

    wall: float
    tasks: Mapping[Task, Use]
    gpus: Mapping[str, Use]
    cores: int | None = None


class UsageLog:
    """Appends samples to a file of at most LARGEST bytes. Discards samples if the file is full, or after an error."""

    def __init__(self, path: Path) -> None:
        self._path, self._open = path, True

    def add(self, sample: UsageSample) -> None:
        if not self._open:
            return
        tasks = {str(task): [round(cpu, 1), memory] for task, (cpu, memory) in sample.tasks.items()}
        gpus = {name: [round(used, 1), memory] for name, (used, memory) in sample.gpus.items()}
        known = {**({"gpus": gpus} if gpus else {}), **({"cores": sample.cores} if sample.cores else {})}
        line = {"t": round(sample.wall, 2), "tasks": tasks, **known}
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        try:
            with open_fd(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW) as file:
                self._open = os.fstat(file).st_size + len(data) <= LARGEST
                if self._open:
                    os.write(file, data)
        except OSError:
            self._open = False


class UsageReader:
    """Reads each sample once. The file may contain anything, since tasks can write to the run directory."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0
        self._newest: UsageSample | None = None

    def new(self) -> list[UsageSample]:
        """Return the samples that were written since the last call."""
        data = self._read()
        *lines, rest = data.split(b"\n")
        self._offset += len(data) - len(rest)
        samples = [sample for line in lines if len(line) <= LONGEST and (sample := _sample(line)) is not None]
        self._newest = samples[-1] if samples else self._newest
        return samples

    def present(self, wall: float, began: float) -> UsageSample | None:
        """Return the newest sample that was read; None if the sample is too old.

        The wall times are now (`wall`) and the beginning of the run (`began`).
        """
        oldest = wall - max(OLD, 3 * interval(wall - began))
        return self._newest if self._newest is not None and self._newest.wall >= oldest else None

    def _read(self) -> bytes:
        with suppress(OSError), open_regular(self._path) as file:
            return os.pread(file.fileno(), max(0, LARGEST - self._offset), self._offset)
        return b""


LEAST_GROWTH = 200 << 20  # bytes; a task's memory has grown if it has grown by this much, and by half of what it was
LEAST_SAMPLES = 5  # of the growth
DIP = 0.95  # memory that falls below this part of an earlier value has not grown steadily
PLATEAU = 0.98  # the growth ends with the first sample of at least this part of the greatest one
LEAST_PART = 0.2  # of the growth, in each half of its time; otherwise the memory has grown by a single jump
RECENT = 1 << 20  # bytes; the part of the file that is read to find growth


class MemoryGrowth(NamedTuple):
    """The steady growth of a task's memory, in bytes, over a number of seconds. As text: a clause without subject."""

    first: int
    last: int
    seconds: float

    def __str__(self) -> str:
        return f"grew from {self.first >> 20} MB to {self.last >> 20} MB within {self.seconds:.0f} s"


def recent_growth(path: Path, task: Task) -> MemoryGrowth | None:
    """Return how the memory of a task's newest attempt has grown, according to the newest samples in a file."""
    try:
        lines = end_of(path, RECENT).split(b"\n")
    except (OSError, ValueError):  # the path may contain characters that no file name can have
        return None
    samples = [sample for line in lines if len(line) <= LONGEST and (sample := _sample(line)) is not None]
    return growth_of([(sample.wall, sample.tasks.get(task, (0.0, 0))[1]) for sample in samples])


def growth_of(points: Sequence[tuple[float, int]]) -> MemoryGrowth | None:
    """Return the steady growth of memory, given wall times and bytes; None if the memory has not grown steadily.

    An attempt begins after a sample without memory, or with less than half of the memory before. The first third of
    its growth does not count: each program's memory grows while it starts.
    """
    attempt = list(points)
    while attempt and not attempt[-1][1]:  # samples after the attempt's end
        attempt.pop()
    for number in range(len(attempt) - 1, 0, -1):
        before = attempt[number - 1][1]
        if not before or attempt[number][1] < before / 2:
            attempt = attempt[number:]
            break
    greatest = max((memory for _, memory in attempt), default=0)
    end = next((number for number, (_, memory) in enumerate(attempt) if memory >= PLATEAU * greatest), 0)
    grown = attempt[end // 3 : end + 1]
    if len(grown) < LEAST_SAMPLES:
        return None
    values = [memory for _, memory in grown]
    first, middle, last = values[0], values[len(values) // 2], values[-1]
    is_steady = all(after >= DIP * before for before, after in pairwise(values))
    least = LEAST_PART * (last - first)
    is_steady &= middle - first >= least and last - middle >= least
    if not is_steady or last - first < max(LEAST_GROWTH, first / 2):
        return None
    return MemoryGrowth(first, last, grown[-1][0] - grown[0][0])


def _sample(line: bytes) -> UsageSample | None:
    found = parse_line(line)
    if not isinstance(found, dict) or (wall := _number(found.get("t"), LATEST)) is None:
        return None
    tasks = dict[Task, Use]()
    for name, used in _items(found.get("tasks")):
        try:
            tasks[Task.parse(name)] = used
        except ValueError:
            continue
    gpus = {name: used for name, used in _items(found.get("gpus"))[:MOST_GPUS] if _GPU.fullmatch(name)}
    cores = _number(found.get("cores"), MOST_CORES)
    return UsageSample(wall, tasks, gpus, int(cores) if cores else None)


def _items(value: Any) -> list[tuple[str, Use]]:
    found = []
    for name, pair in value.items() if isinstance(value, dict) else ():
        if isinstance(pair, list) and len(pair) == 2:
            percent, memory = (_number(one, GREATEST) for one in pair)
            if percent is not None and memory is not None:
                found.append((name, (percent, int(memory))))
    return found


def _number(value: Any, most: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= most and math.isfinite(value) else None
