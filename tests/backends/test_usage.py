"""Samples of what tasks use are kept, whether or not anybody looks; and of a task without a process there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from clusterkit.backends.local import usage
from clusterkit.store.usage import UsageLog, UsageReader
from clusterkit.words.events import Crashed
from tests.histories import task
from tests.support import wait_until

pytestmark = pytest.mark.process


def test_a_task_is_sampled_until_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its memory; nothing is written once the sampler has stopped, nor of a pid that is another process's."""
    monkeypatch.setattr("clusterkit.store.usage.EVERY", 0.02)
    crashes = list[Crashed]()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    pids = {task("worker:0"): child.pid, task("worker:1"): os.getpid()}
    file = tmp_path / "usage"
    sampler = usage.UsageSampler(UsageLog(file).add, lambda: pids, crashes.append)
    try:
        wait_until(lambda: file.exists() and file.read_bytes().count(b"\n") > 3, 20, "samples")
    finally:
        sampler.stop()
        child.kill()
        child.communicate()
    size = file.stat().st_size
    samples = UsageReader(file).new()
    own = os.getsid(0) == os.getpid()  # then this process leads its session, as a task does
    assert all(set(sample.tasks) - ({task("worker:1")} if own else set()) == {task("worker:0")} for sample in samples)
    assert all(1 << 20 < sample.tasks[task("worker:0")][1] < 1 << 30 for sample in samples[1:])
    assert all(before.wall <= after.wall for before, after in pairwise(samples))
    assert file.stat().st_size == size
    assert crashes == []
