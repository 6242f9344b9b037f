"""Random commands against real tiny children: the states, the journal and the budgets stay true."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from clusterkit.store.control import Client, Refused
from clusterkit.store.directory import RunDirectory
from tests.support import CHILDREN, Up

pytestmark = pytest.mark.process

SHAPES = [("--workers", "2", "--ps", "1"), ("--workers", "3"), ("--workers", "1", "--chief"), ("--workers", "1")]
SEQUENCES = 25  # of each shape


def one_sequence(client: Client, names: list[str], rng: random.Random) -> int:
    """A few commands with short breaks; returns how many were answered with a refusal."""
    refused = 0
    for _ in range(rng.randrange(2, 6)):
        verb = rng.choice(["kill", "pause", "unpause", "restart", "stacks"])
        tasks = rng.sample(names, rng.randrange(0, min(3, len(names) + 1)))
        try:
            answer = client.call(verb, tasks=tasks, signal=rng.choice([signal.SIGKILL, signal.SIGTERM]))
            assert answer["tasks"]
        except Refused:
            refused += 1
        threading.Event().wait(rng.choice([0, 0, 0.01, 0.1]))  # what happens between two commands is the subject
    with suppress(Refused):
        client.call("unpause")
    return refused


def check_journal(run: Up) -> None:
    """Never two live attempts of a task, each attempt one above the last, no process before its port was free."""
    live: dict[str, int] = {}
    last: dict[str, int] = {}
    for event in run.events():
        if event["event"] == "Spawned":
            assert live.setdefault(event["task"], 0) == 0
            assert event["attempt"] == last.get(event["task"], 0) + 1
            live[event["task"]], last[event["task"]] = 1, event["attempt"]
        elif event["event"] == "Swept":
            live[event["task"]] -= 1
    assert set(live.values()) <= {0}


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("shape", range(len(SHAPES)))
def test_random_commands_keep_the_run_true(up: Callable[..., Up], shape: int) -> None:
    """Twenty-five sequences on each shape: every request is answered, and `down` finds a run that can end."""
    rng = random.Random(shape)
    print(f"seed {shape}")
    rules = ("--restart-budget", "1000", "--restart-backoff", "0.01", "--grace-period", "1")
    run = up(*SHAPES[shape], *rules, CHILDREN / "roles.py", "--steps", "1000000")
    run.wait_for_step(1)
    with Client(RunDirectory(run.run), timeout=20) as client:
        for _ in range(SEQUENCES):
            one_sequence(client, sorted(run.pids()), rng)
        client.call("down")
    assert run.wait(30) == 143, run.output[-3000:]
    check_journal(run)
