"""Clients of a warm server, and which of their settings reach the tasks."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit.warm.warm_client import ask
from tests.environment import clean_environment
from tests.servers import WORLD, Warm, short_home
from tests.support import CHILDREN

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture
def home() -> Iterator[Path]:
    """Sockets are in it."""
    with short_home() as path:
        yield path


def test_a_clients_settings_reach_the_tasks(warm: Warm, tmp_path: Path) -> None:
    """Limits, umask, directory, priority, environment and signals are as in a run without the server."""
    pid = warm.start()
    told = {}
    shell = f"umask 027; ulimit -n 512; ulimit -c 0; trap '' HUP; cd '{tmp_path}'; exec nice -n 5 \"$@\""
    env = {**clean_environment(warm.home), **warm.env, "MINE": "äö\udcff"}
    for name in ("cold", "warm"):
        mode = ["--start", "cold"] if name == "cold" else []
        up = [sys.executable, "-m", "clusterkit", "up", "--run-id", name, *mode, str(WORLD)]
        subprocess.run(["sh", "-c", shell, "sh", *up], env=env, timeout=30, check=True, stdout=subprocess.DEVNULL)
        told[name] = json.loads((warm.home / "runs" / name / "tasks" / "worker:0" / "attempt-1.log").read_text())
    assert (told["cold"]["imported_by"] == told["cold"]["pid"], told["warm"]["imported_by"]) == (True, pid)
    seen = told["warm"]["world"]
    assert (seen["umask"], seen["nice"], seen["cwd"]) == (0o027, 5, str(tmp_path))
    assert seen["ignored"] == [signal.SIGPIPE, signal.SIGXFSZ], "a task does not ignore what its caller ignores"
    assert [512, 512] in seen["limits"]
    assert seen == told["cold"]["world"]


def test_another_user_is_not_served(warm: Warm, home: Path) -> None:
    """Not even if the socket is open to all, since the kernel reports the client's user."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    pid = warm.start()
    (path,) = home.glob("warm/*.sock")
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0
    for place in (home.parent, home, path.parent):
        place.chmod(0o755)
    path.chmod(0o666)
    done = subprocess.run([sys.executable, CHILDREN / "stranger.py", path], capture_output=True, timeout=20)
    assert (done.returncode, done.stdout) == (0, b"connected\nno answer\n"), done.stderr
    assert f"pid {pid}" in warm("status")


def test_silent_clients_do_not_delay_others(warm: Warm, home: Path) -> None:
    """For example one that was stopped before its request; an incomplete request costs a second."""
    warm.start()
    (path,) = home.glob("warm/*.sock")
    silent = [socket.socket(socket.AF_UNIX) for _ in range(4)]
    for client in silent:
        client.connect(str(path))
    silent[0].sendall(b"\0\0\0\7{")
    begun = time.monotonic()
    told = ask(path, {"do": "status"})
    assert time.monotonic() - begun < 4
    assert told["runs"] == 0
    for client in silent:
        client.settimeout(20)
        assert client.recv(1) == b"", "it has its time, and is sent away"
        client.close()


def test_an_empty_or_invalid_request_does_no_harm(warm: Warm, home: Path) -> None:
    """The server continues with the next one, and keeps no descriptor."""
    pid = warm.start()
    (path,) = home.glob("warm/*.sock")
    read, write = os.pipe()
    status = b'\0\0\0\x10{"do": "status"}'
    for words in (b"\0", b"\0\0\0\2{]", b"\0\0\0\2[]", b"\0\0\0\2{}", b"\xff\xff\xff\xff", status):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            socket.send_fds(client, [words], [write])
    assert f"pid {pid}" in warm("status")
    os.close(write)
    assert select.select([read], [], [], 20)[0], "nobody else has the other end"
    os.close(read)
