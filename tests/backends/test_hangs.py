"""Looks at live tasks: what the report tells of each, and a verdict without TensorFlow."""

from __future__ import annotations

import os
import queue
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clusterkit.backends.local import hang_inspector
from clusterkit.backends.local.hang_inspector import HangInspector, InspectedAttempt, last_error, report_of
from clusterkit.store.directory import RunDirectory
from clusterkit.system.process import AttemptChild
from clusterkit.system.procfs import endpoint, established
from clusterkit.task.entry import STACKS_SIGNAL
from clusterkit.words.events import Inspected, Look, Vitals
from tests.commands import ROLES, Clusterkit, journal, wait_for
from tests.histories import task

pytestmark = pytest.mark.process

WORKER = task("worker:0")
FAST = ("--stall-warning", "0.5s", "--stall-timeout", "1.5s", "--restart-backoff", "0.1s")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("0100007F:1F90", "127.0.0.1:8080"),
        ("0000000000000000FFFF00000100007F:01BB", "127.0.0.1:443"),
        ("00000000000000000000000001000000:0016", "[::1]:22"),
        ("0100010A:08AE", "10.1.0.1:2222"),
    ],
)
def test_how_the_kernel_writes_an_address(text: str, read: str) -> None:
    """An IPv4 address in an IPv6 socket is the same address."""
    assert endpoint(text) == read


def test_the_connections_of_a_process_are_its_own_established_ones() -> None:
    """Both ends of one that this process has with itself; a socket that only listens is none."""
    before = established(os.getpid())
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            ends = [":".join(map(str, one.getsockname())) for one in (accepted, client)]
            new = [made for made in established(os.getpid()) if made not in before]
    assert sorted(new) == sorted([(ends[0], ends[1]), (ends[1], ends[0])])


def test_the_connections_of_a_process_that_is_gone_are_none() -> None:
    """It ended while it was looked at."""
    assert established(2**22 + 1) == []


@pytest.mark.slow
def test_a_stopped_task_is_named_killed_and_started_again(ck: Clusterkit, tmp_path: Path) -> None:
    """The others' stacks tell where they are; for the stopped one's nobody waits, and the job goes on to its end."""
    # The only step waits for the gate: before it nothing but a task that is stopped counts as a stall.
    gate = tmp_path / "gate"
    run = ck.up(*FAST, "--workers", "2", "--ps", "1", ROLES, "--steps", "1", "--step-time", "1", "--until", gate)
    pids = {event["task"]: event["pid"] for event in journal(run, "Spawned")}
    os.kill(pids["chief:0"], signal.SIGSTOP)
    warning = wait_for(run, "Stalled", 20)["text"]
    assert "chief:0 is stopped (T)." in warning
    [path] = re.findall(rf" is in ({run}/stacks/stall-\d+\.txt)\.", warning)
    report = Path(path).read_text()
    assert f"chief:0 is stopped (T)\n  process      attempt 1, pid {pids['chief:0']}, stopped (T)" in report
    assert "worker:0 sleeps (time.sleep) at roles.py:" in report
    assert report.count("no stacks: stopped, or no Python program") == 1
    wait_for(run, "Inspected", look="stall", report=path)
    gate.touch()
    wait_for(run, "Spawned", 30, task="chief:0", attempt=2)
    assert ck("wait", run.name).code == 0
    assert len(journal(run, "Spawned")) == len(pids) + 1


def test_a_look_ends_with_its_run_and_tells_what_it_has_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it would wait for a task that catches the signal and writes nothing; nobody may miss the answer."""
    monkeypatch.setattr(hang_inspector, "STACKS_TIMEOUT", 600.0)  # seconds: it ends because of `stop` alone
    posted = queue.SimpleQueue[Any]()
    (tmp_path / "stacks").mkdir()
    code = f"import signal; signal.signal({STACKS_SIGNAL}, lambda *_: None); print(flush=True); input()"
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        looks = HangInspector(RunDirectory(tmp_path), posted.put)
        child = AttemptChild(process.pid, -1, "", 0)
        looks.begin(
            Look.STALL, "no progress", [InspectedAttempt(WORKER, 1, child, Vitals(1, False, "S"), "127.0.0.1:9")]
        )
        looks.stop()
    answer = posted.get_nowait()
    state = answer.vitals[WORKER].state  # the signal wakes it for a moment
    assert state in ("R", "S")
    assert answer == Inspected({WORKER: Vitals(1, False, state)}, Look.STALL, str(tmp_path / "stacks" / "stall-1.txt"))
    report = (tmp_path / "stacks" / "stall-1.txt").read_text()
    assert "endpoint     127.0.0.1:9, not listening\n  connections  none\n  listens      nowhere\n  no stacks" in report


def test_a_report_of_nothing_is_a_heading() -> None:
    """Every task may have ended before it was looked at."""
    assert report_of("no progress for 60 s", []).endswith(": no progress for 60 s\n")


RAISED = """Exception in thread Thread-1:
Traceback (most recent call last):
  File "train.py", line 7, in load
    rows = bytearray(1 << 40)
MemoryError
"""
LOST = RAISED.replace(
    "MemoryError", "tensorflow.python.framework.errors_impl.UnavailableError: Connection reset by peer"
)


@pytest.mark.parametrize(
    ("log", "error"),
    [
        ("", ""),
        ("step 1\nstep 2\n", ""),
        (f"step 1\n{RAISED}", "MemoryError"),
        (f"step 1\n{RAISED}\n2026-11-28 16:33:35.000000: I tensorflow/core/x.cc:1] all is well\n", "MemoryError"),
        (f"{RAISED}cleaning up\n", "MemoryError"),
        (f"{RAISED}step 3\nstep 4\nstep 5\nstep 6\n", ""),
        (LOST, ""),
        (RAISED.replace("MemoryError", f"ValueError: {'x' * 1000}"), f"ValueError: {'x' * 188}"),
        ("MemoryError\n", ""),
        (RAISED.removesuffix("MemoryError\n"), ""),
    ],
)
def test_the_exception_with_which_a_log_ends(log: str, error: str) -> None:
    """Not one after which the program went on, nor one that only says that a peer is gone."""
    assert last_error(log.encode()) == error


@pytest.mark.slow
def test_a_task_with_an_exception_in_its_log_is_blamed_for_the_stall(ck: Clusterkit, tmp_path: Path) -> None:
    """Its thread died of it, and its main thread waits as its peer's does."""
    program = tmp_path / "train.py"
    program.write_text(
        "import json, os, threading, time\n"
        "pipe = os.open(os.environ['CLUSTERKIT_PROGRESS'], os.O_WRONLY)\n"
        "report = dict(kind='progress', attempt=int(os.environ['CLUSTERKIT_ATTEMPT']), step=1, metrics={})\n"
        "os.write(pipe, json.dumps(report).encode() + b'\\n')\n"
        "def load():\n    raise MemoryError\n"
        "if os.environ['CLUSTERKIT_TASK'] == 'worker:1':\n    threading.Thread(target=load).start()\n"
        "time.sleep(1000)\n"
    )
    run = ck.up("--stall-warning", "1s", "--startup-timeout", "0s", "--workers", "2", program)
    stalled = wait_for(run, "Stalled", 30)
    assert stalled["task"] == "worker:1"
    assert "worker:1 has raised MemoryError and sleeps (time.sleep) at train.py:9" in stalled["text"]
