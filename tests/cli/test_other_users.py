"""Directories of other users: commands refuse or read them, in time and without a traceback, and harm nobody."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clusterkit.store.directory import RunDirectory, RunInfo
from clusterkit.system.files import short_path
from clusterkit.words.model import ProgramKind
from tests.commands import Clusterkit
from tests.histories import build_job
from tests.strangers import STRANGER, needs_root
from tests.support import CHILDREN

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]
READING = ("show", "explain", "logs", "ps", "stacks")
CONTROLLING = (
    *(("down",), ("kill", "worker:0"), ("pause", "worker:0"), ("restart", "worker:0")),
    ("fault", "kill worker:0"),
)
PIPES = ("result.json", "journal.jsonl", "usage.jsonl", "exam.json", "dashboard", "hooks.log", "crash.txt")
# A daemon whose child has a lock: a supervisor and its guardian look the same.
DAEMON = """
import fcntl, os, sys, time
if os.fork() == 0:
    file = open(sys.argv[1], "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    print(os.getpid(), flush=True)
    time.sleep(60)
os.wait()
"""


def planted(place: Path, owner: int, pid: int = 0, pipes: bool = True) -> RunDirectory:
    """The directory of a run whose job.json names a supervisor. With `pipes`, no other file is what it seems."""
    run = RunDirectory(place / "planted")
    run.make()
    job = build_job({"program": "train.py", "workers": 2}, ProgramKind.SCRIPT)
    run.write_info(RunInfo(run_id="planted", created=time.time(), pid=pid, endpoints={}, job=job))
    log = run.all_tasks / "worker:0" / "attempt-1.log"
    log.parent.mkdir()
    for path in [*(run.path / name for name in PIPES), run.arrivals, log, run.control_socket] if pipes else []:
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    for path in [run.path, *run.path.rglob("*")]:
        os.chown(path, owner, -1)
        path.chmod(0o755)
    return run


@needs_root
@pytest.mark.parametrize("lock", ["missing", "pipe"])
def test_a_run_of_another_user_holds_no_command_up(ck: Clusterkit, tmp_path: Path, lock: str) -> None:
    """Named pipes lie where its files should be. What only reads shows what it can; the rest says whose the run is."""
    run = planted(tmp_path, STRANGER)
    if lock == "pipe":
        os.mkfifo(run.lock_file)
    for command in READING:
        assert ck.anyhow(command, str(run.path), deadline=30).code in (0, 1, 2), command
    done = ck.anyhow("report", str(run.path), "-o", str(tmp_path / "report.html"), deadline=30)
    assert done.code in (0, 1, 2), done
    for command, *more in CONTROLLING:
        done = ck.anyhow(command, str(run.path), *more, deadline=30)
        assert done.code in (0, 1, 2), command
        assert "Sent" not in done.out


@contextmanager
def daemon(file: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Two processes, of which the child has locked a file; the child's pid."""
    process = subprocess.Popen([sys.executable, "-c", DAEMON, str(file)], stdout=subprocess.PIPE, text=True)
    output = process.stdout
    assert output is not None
    try:
        child = int(output.readline())
        yield process, child
        os.kill(child, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
        output.close()


@needs_root
@pytest.mark.parametrize("owner", [0, STRANGER], ids=["one's own", "another user's"])
def test_a_link_in_place_of_the_lock_ends_nobody(ck: Clusterkit, tmp_path: Path, owner: int) -> None:
    """Whoever has locked the file that it leads to is no supervisor."""
    file = tmp_path / "locked"
    with daemon(file) as (process, child):
        run = planted(tmp_path, owner, child, pipes=False)
        run.lock_file.symlink_to(file)
        done = ck.anyhow("down", "-t", "0.1s", str(run.path), deadline=30)
        assert done.code in (0, 1, 2), done
        time.sleep(0.2)
        assert process.poll() is None, "the daemon was ended"


@needs_root
def test_a_warm_server_of_another_user_gets_nothing(ck: Clusterkit, tmp_path: Path) -> None:
    """In a directory in which everybody can make some, the variables of `up` were sent to whoever was there first."""
    ck.home.chmod(0o1777)
    warm = ck.home / "warm"
    warm.mkdir()
    os.chown(warm, STRANGER, -1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with short_path(warm / "0123.sock") as path:
            listener.bind(path)
        listener.listen(8)
        listener.setblocking(False)
        for words in (("up", str(CHILDREN / "plain.py")), ("ls",), ("warm", "status"), ("down",)):
            done = ck.anyhow(*words)
            assert done.code == 2, (words, done)
            assert f"The directory {warm} belongs to uid {STRANGER}, who could run code as you" in done.err
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert not (ck.home / "runs").exists()
