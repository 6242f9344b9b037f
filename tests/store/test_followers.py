"""Fifty clients that follow a talkative run, half of which fall asleep."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.support import CHILDREN, ROOT, Up, wait_until

pytestmark = pytest.mark.process

FOLLOWERS = 50
SECONDS = 6
# Follows the journal as `events -f` does, and the logs, merged in the order of arrival, as `logs -f` does.
FOLLOWER = """
import hashlib, json, os, sys, threading
from pathlib import Path
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import RunEndWaiter, follow
from clusterkit.store.journal import JournalReader
run, over, digest = RunDirectory(Path(sys.argv[1])), threading.Event(), hashlib.sha256()

def follow_logs():
    logs, merged, half, ended = {}, hashlib.sha256(), b"", False
    with run.arrivals.open("rb") as arrivals:
        while not ended:
            ended = over.wait(0.1)
            *lines, half = (half + arrivals.read()).split(b"\\n")
            for line in lines:
                _, task, attempt, end = line.split()
                name = run.all_tasks / task.decode() / f"attempt-{attempt.decode()}.log"
                log = logs.setdefault(name, None) or logs.__setitem__(name, name.open("rb")) or logs[name]
                merged.update(log.read(int(end) - log.tell()))
    print(merged.hexdigest(), sum(log.tell() for log in logs.values()))

print("here", flush=True)
logs = threading.Thread(target=follow_logs)
logs.start()
for entries in follow(JournalReader(run).new, RunEndWaiter(run).is_over, every=0.1, timeout=100):
    for entry in entries:
        digest.update(json.dumps(entry.message, sort_keys=True).encode())
print(digest.hexdigest())
over.set()
logs.join()
"""
Start = Callable[..., Up]


def start(up: Start, name: str) -> Up:
    """A run of eight tasks that wait for the word."""
    run = up("--run-id", name, "--workers", "8", "--quiet", CHILDREN / "writes_steadily.py", str(SECONDS))
    run.wait_for("Spawned", count=8)
    return run


def go(run: Up) -> None:
    """Let the tasks write."""
    (run.home / "runs" / run.args[2] / "go").touch()


def lateness(run: Up) -> float:
    """Seconds by which the middle one of all reports was late: each task makes 20 steps a second from its begin on."""
    begun: dict[str, list[float]] = {}
    for event in run.events("Progressed"):
        begun.setdefault(event["task"], []).append(event["m"] - event["step"] * 0.05)
    return statistics.median(one - min(ones) for ones in begun.values() for one in ones)


@contextmanager
def followers(run: Up) -> Iterator[list[subprocess.Popen[str]]]:
    """Fifty of them, each of which has begun."""
    command = [sys.executable, "-c", FOLLOWER, str(run.run)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, env=env, text=True) for _ in range(FOLLOWERS)]
    try:
        for follower in started:
            assert follower.stdout is not None
            assert follower.stdout.readline() == "here\n"
        yield started
    finally:
        for follower in started:
            follower.kill()
            follower.communicate(timeout=10)


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.long
def test_fifty_followers_see_the_same_and_slow_nobody_down(up: Start) -> None:
    """Half of them are stopped in the middle: the rest see every event in one order, and the run is on time."""
    alone = start(up, "alone")
    go(alone)
    assert alone.wait(60) == 0
    watched = start(up, "watched")
    with followers(watched) as started:
        go(watched)
        watched.wait_for_step(20)
        for follower in started[::2]:
            follower.send_signal(signal.SIGSTOP)
        assert watched.wait(60) == 0
        seen = {follower.communicate(timeout=60)[0] for follower in started[1::2]}
    assert len(seen) == 1, seen
    written = sum(path.stat().st_size for path in watched.run.glob("tasks/*/*.log"))
    assert seen.pop().split()[-1] == str(written)
    print(f"late: watched {lateness(watched):.3f} s, alone {lateness(alone):.3f} s")
    assert lateness(watched) <= lateness(alone) + SECONDS / 2 * 0.1  # which a tenth slower would be in the middle
    wait_until(lambda: all(follower.poll() is not None for follower in started), 10, "the followers' end")
