"""Commands of hooks: what they get, how long they may take, and that nothing of them is left, whatever they do."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit.hooks import runner
from clusterkit.hooks.runner import MOST_REPORTED
from clusterkit.system import procfs
from clusterkit.words import events as ev
from clusterkit.words.job import Hooks
from tests.hooks.running import PROBLEMS, SCRIPTS, Running, lines, python
from tests.support import wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start a runner; ended after the test, with nothing left of it."""
    made, before = list[Running](), set(procfs.children(os.getpid()))

    def starts(bound: float = 60.0, **commands: str) -> Running:
        made.append(Running(tmp_path / f"run{len(made)}", Hooks(**commands), bound))
        return made[-1]

    yield starts
    for one in made:
        one.hooks.end()
        one.inbox.close()
    left = [pid for pid in procfs.children(os.getpid()) if pid not in before and not procfs.is_zombie(pid)]
    assert left == []


def test_events_come_on_standard_input_in_order(start: Callable[..., Running], tmp_path: Path) -> None:
    """The environment names the run; output and exit code are in the log."""
    seen = tmp_path / "seen"
    running = start(failure=f"cat >> {seen}; echo $CLUSTERKIT_RUN_ID $CLUSTERKIT_EVENT $PWD", end=f"cat >> {seen}")
    for _ in range(3):
        running.fails()
    running.ends()
    running.settle()
    assert [one["event"] for one in lines(seen)] == ["failure"] * 3
    running.hooks.end()
    assert [(one["event"], one["attempt"]) for one in lines(seen)] == [
        *(("failure", 1), ("failure", 2), ("failure", 3), ("end", None))
    ]
    assert f"run0 failure {Path.cwd()}\n".encode() in running.log
    assert running.log.count(b"exited with code 0") == 4
    assert [line for line in running.told() if not line.startswith("Waiting up to ")] == []


@pytest.mark.parametrize("what", SCRIPTS)
def test_a_hostile_command_is_bounded_and_leaves_nothing(start: Callable[..., Running], what: str) -> None:
    """Not a process, no more than so much output; its problem is told in one line, and the next command runs."""
    problem = PROBLEMS.get(what, "")
    bound = 1.0 if "took longer" in problem else 60.0  # the others end by themselves, however busy the machine is
    running = start(bound, failure=f"{python(SCRIPTS[what])}; code=$?; [ $code = 0 ] || exec sh -c \"exit $code\""
                    if what not in ("kills itself", "stops itself") else f"exec {python(SCRIPTS[what])}")  # fmt: skip
    companion = running.hooks._companion
    assert companion is not None
    began = time.monotonic()
    running.fails("e" * 2000)
    running.settle()
    assert time.monotonic() - began < 20
    assert procfs.descendants(companion.pid) == []
    told = running.told()
    assert [line.partition(", which")[0] for line in told] == (
        [f"The --on-failure command {problem}"] if problem else []
    )
    assert len(running.log) < 1_100_000
    if what.startswith("writes 100 MB"):
        assert b"more bytes are left out" in running.log
    running.fails()
    running.settle()
    assert running.log.count(b"--- on-failure 2 ") == 1


def test_a_large_document_that_nobody_reads(start: Callable[..., Running]) -> None:
    """More than a pipe holds: the command ends when it wants to."""
    running = start(failure="sleep 0.2")
    assert running.hooks._companion is not None
    running.hooks._running, running.hooks._count = next(iter(running.hooks._commands)), 1
    running.hooks._send({"number": 1, "hook": "failure", "input": "x" * 150_000})
    running.settle()
    assert b"exited with code 0" in running.log
    assert running.told() == []


@pytest.mark.parametrize("command", ["no_such_command_at_all", "/", "'", "exit 7", "a" * 30_000])
def test_a_command_that_fails_is_told(start: Callable[..., Running], command: str) -> None:
    """With its log."""
    running = start(failure=command)
    running.fails()
    running.settle()
    (told,) = running.told()
    assert told.startswith("The --on-failure command exited with code ")
    assert told.endswith(f"Its log: {running.run.hooks_log}")


def test_no_shell_can_be_started(start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that was removed meanwhile."""
    where = Path.cwd()
    gone = Path("/proc/self/fdinfo/gone")
    monkeypatch.setattr("clusterkit.hooks.runner.Path.cwd", lambda: gone)
    running = start(failure="true")
    monkeypatch.undo()
    assert Path.cwd() == where
    running.fails()
    running.settle()
    (told,) = running.told()
    assert told.startswith(f"The --on-failure command can't be started (No such file or directory: {gone})")


def test_a_flood_of_failures_is_bounded_and_counted(
    start: Callable[..., Running], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand at once: so many wait, the rest is skipped; a command learns how many were skipped before it."""
    monkeypatch.setattr(runner, "MOST_QUEUED", few := 20)
    seen, gate = tmp_path / "seen", tmp_path / "gate"
    running = start(bound=20, failure=f"while [ ! -e {gate} ]; do sleep 0.05; done; cat >> {seen}")
    began = time.process_time()
    for _ in range(1000):
        running.fails()
    assert time.process_time() - began < 5  # the loop is not kept waiting
    gate.touch()
    running.settle(40)
    running.fails()
    running.settle()
    skipped = 1000 - few - 1
    assert len(lines(seen)) == few + 2
    assert sum(one["skipped"] for one in lines(seen)) == skipped
    (told,) = running.told()
    assert told.startswith(f"The commands of --on-failure can't keep up: {few} events wait")
    running.hooks.end()
    assert running.said == [f"--on-failure was skipped for {skipped} events: its command could not keep up."]


def test_a_command_that_always_fails_is_told_a_few_times(start: Callable[..., Running]) -> None:
    """The rest is counted."""
    running = start(failure="exit 1")
    for _ in range(MOST_REPORTED + 4):
        running.fails()
    running.settle()
    assert len(running.told()) == MOST_REPORTED
    running.hooks.end()
    assert running.said == [
        f"The --on-failure command failed {MOST_REPORTED + 4} times in all. Its log: {running.run.hooks_log}"
    ]


def test_the_end_waits_for_what_runs_within_the_bound(start: Callable[..., Running], tmp_path: Path) -> None:
    """Then it ends that, and what still waits is skipped; the end is told nevertheless."""
    seen = tmp_path / "seen"
    running = start(failure="sleep 60", end=f"cat >> {seen}")
    companion = running.hooks._companion
    assert companion is not None
    running.fails()
    running.fails()
    wait_until(lambda: procfs.descendants(companion.pid), 10, "the first command")
    running.hooks._bound = 1.5  # for how long the run waits; the commands themselves have more
    running.ends()
    began = time.monotonic()
    running.hooks.end()
    assert time.monotonic() - began < 20
    assert [one["event"] for one in lines(seen)] == ["end"]
    assert any("Waiting up to 1.5 s for the --on-failure command" in text for text in running.said)


def test_ctrl_c_ends_the_wait(start: Callable[..., Running]) -> None:
    """At once, with the command."""
    running = start(bound=30, end="sleep 60")
    running.ends()
    running.inbox.put(ev.Interrupted(signal.SIGINT))
    began = time.monotonic()
    running.hooks.end()
    assert time.monotonic() - began < 15


def test_the_process_that_runs_commands_is_killed(start: Callable[..., Running]) -> None:
    """One line says so; what it ran comes to this process, as to the supervisor, and the run goes on."""
    running = start(failure="sleep 60", bound=60)
    companion = running.hooks._companion
    assert companion is not None
    running.fails()
    running.fails()
    wait_until(lambda: procfs.descendants(companion.pid), 10, "the command")
    command = procfs.descendants(companion.pid)
    os.kill(companion.pid, signal.SIGKILL)
    assert running.inbox.work_until(lambda: running.hooks._companion is None, 10)
    wait_until(lambda: all(procfs.is_zombie(pid) for pid in command[:1]), 10, "the shell ends with it")
    (told,) = [line for line in running.told() if "skipped" not in line]
    assert told.startswith("The commands of --on-failure no longer run: their process has ended.")
    running.fails()
    running.hooks.end()
    for pid in command:
        if not procfs.is_zombie(pid):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("seed", range(3))
def test_what_makes_no_sense_is_ignored_on_both_ends(start: Callable[..., Running], seed: int) -> None:
    """Random bytes to the process and from it: the next command runs."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    running = start(failure="true")
    companion = running.hooks._companion
    assert companion is not None
    nonsense = [rng.randbytes(rng.randrange(300)).replace(b"\n", b" ") for _ in range(40)]
    nonsense += [b"{}", b"[]", b"null", b'{"number": 1, "hook": "nosuch", "input": ""}', b'{"number": "1"}']
    nonsense += [b'{"number": 1, "hook": "failure", "input": 5}', b"[" * 50_000]
    channel: socket.socket = companion._channel
    channel.sendall(b"\n".join(nonsense) + b"\n")
    answers: list[Any] = [
        None,
        5,
        [],
        {},
        {"number": 99, "problem": None},
        {"number": 0},
        {"number": "0", "problem": 5},
    ]
    for message in answers:
        running.hooks._command_done(message)
    running.fails()
    running.settle()
    assert running.log.count(b"exited with code 0") == 1
    assert running.told() == []
