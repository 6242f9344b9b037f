"""The control socket of a live run, with clients that behave and clients that do not."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from clusterkit.store.control import Client, NotLive, Refused, connect
from clusterkit.store.directory import RunDirectory
from tests.support import CHILDREN, Up, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

LONG = ("--workers", "2", "--ps", "1", "--restart-backoff", "0.1", CHILDREN / "roles.py", "--steps", "100000")
Start = Callable[..., Up]


@contextmanager
def live(up: Start, *args: str | Path) -> Iterator[Up]:
    """A run that goes on until the block ends."""
    run = up(*(args or LONG))
    run.wait_for_step(1)
    yield run
    run.signal(signal.SIGTERM)
    run.wait(20)


def test_a_client_acts_on_a_task(up: Start) -> None:
    """Kill, pause, unpause and restart go through the machine: the journal tells of each."""
    with live(up) as run, Client(RunDirectory(run.run)) as client:
        assert client.call("hello")["protocol"] == 1
        assert client.call("kill", tasks=["worker:1"])["tasks"] == ["worker:1"]
        run.wait_for("Spawned", task="worker:1", attempt=2)
        assert client.call("pause", tasks=["worker:0"])["tasks"] == ["worker:0"]
        pid = run.pids()["worker:0"][0]
        wait_until(lambda: " T " in Path(f"/proc/{pid}/stat").read_text(), 10, "worker:0 is stopped")
        client.call("unpause", tasks=["worker:0"])
        wait_until(lambda: " T " not in Path(f"/proc/{pid}/stat").read_text(), 10, "worker:0 goes on")
        assert client.call("restart", tasks=["ps:0"])["tasks"] == ["chief:0", "ps:0"]
        run.wait_for("Spawned", task="chief:0", attempt=2)
        run.wait_for("Spawned", task="ps:0", attempt=2)
        assert [e["charged"] for e in run.events("RestartPlanned", cause=None)] == [0]


def test_what_can_not_be_done_is_refused_with_the_reason(up: Start) -> None:
    """The answer is a sentence, and the connection stays."""
    with live(up) as run, Client(RunDirectory(run.run)) as client:
        with pytest.raises(Refused, match="no task worker:7"):
            client.call("kill", tasks=["worker:7"])
        with pytest.raises(Refused, match="worker:0 is not paused now"):
            client.call("unpause", tasks=["worker:0"])
        with pytest.raises(Refused, match="is not a task"):
            client.call("kill", tasks=["wroker"])
        with pytest.raises(Refused, match="not a signal"):
            client.call("kill", tasks=["worker:0"], signal=99)
        assert client.call("hello")["run_id"] == run.run.name


def test_the_socket_is_this_users_alone(up: Start) -> None:
    """0600 in a 0700 directory."""
    with live(up, "--run-id", "s", *LONG) as run:
        assert stat.S_IMODE((run.run / "control.sock").stat().st_mode) == 0o600
        assert stat.S_IMODE(run.run.stat().st_mode) == 0o700
    assert not (run.run / "control.sock").exists()


def test_a_long_state_directory_has_its_socket_too(up: Start, home: Path) -> None:
    """The address of a Unix socket has 107 bytes at most, the path of a run directory any number."""
    deep = home / ("d" * 60) / ("e" * 60)
    run = up(*LONG, env={"CLUSTERKIT_HOME": str(deep)})
    socket = wait_until(lambda: next(iter(deep.glob("runs/*/control.sock")), None), 20, "the socket")
    with Client(RunDirectory(socket.parent)) as client:
        assert client.call("down")["tasks"]
    assert run.wait(20) == 143
    assert not socket.exists()


@pytest.mark.parametrize(
    ("garbage", "code"),
    [
        (b"garbage\n", -32700),
        (b"{}\n", -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"format_disk"}\n', -32601),
        (b"x" * (1 << 17), -32600),
    ],
)
def test_garbage_gets_an_error_and_is_cut_off(up: Start, garbage: bytes, code: int) -> None:
    """Whoever talks nonsense is told so, once, and hung up on; the others notice nothing."""
    with live(up) as run, connect(RunDirectory(run.run), 10) as stranger, Client(RunDirectory(run.run)) as client:
        answer = b""
        with suppress(ConnectionError):  # hung up on before all of it was sent, or read
            stranger.sendall(garbage)
        with suppress(ConnectionError):
            while more := stranger.recv(4096):
                answer += more
        assert json.loads(answer)["error"]["code"] == code
        assert client.call("hello")["protocol"] == 1


def test_a_line_of_100_mb_costs_the_run_nothing(up: Start) -> None:
    """The server reads no more of it than a request can have; the supervisor's memory stays where it was."""
    with live(up) as run, connect(RunDirectory(run.run), 10) as stranger:
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            stranger.sendall(b"x" * (100 << 20))
        status = Path(f"/proc/{run.supervisor}/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        assert peak < 60 << 10


def test_random_bytes_never_hurt_the_server(up: Start) -> None:
    """Two hundred strangers with seeded noise, half lines and sudden goodbyes; the run answers as before."""
    rng = random.Random(11)
    with live(up) as run:
        for _ in range(200):
            with connect(RunDirectory(run.run), 10) as stranger:
                noise = rng.randbytes(rng.randrange(1, 3000)) + rng.choice([b"", b"\n", b'{"jsonrpc":"2.0"'])
                try:
                    stranger.sendall(noise)
                except OSError:
                    continue  # hung up on already
        with Client(RunDirectory(run.run)) as client:
            assert client.call("hello")["protocol"] == 1


def test_a_client_never_waits_for_a_dead_supervisor(up: Start) -> None:
    """After SIGKILL the socket's file is still there; the lock tells."""
    run = up(*LONG)
    run.wait_for_step(1)
    with Client(RunDirectory(run.run)) as before:
        os.kill(run.supervisor, signal.SIGKILL)
        run.wait(10)
        with pytest.raises(NotLive):
            before.call("hello")
    with pytest.raises(NotLive, match="is not live"):
        Client(RunDirectory(run.run))


def test_concurrent_requests_start_nothing_twice(up: Start) -> None:
    """Twenty clients ask for a restart of the same task at once: never are two attempts of it alive."""
    with live(up) as run:

        def ask() -> None:
            with Client(RunDirectory(run.run)) as client:
                client.call("restart", tasks=["worker:1"])

        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        run.wait_for("Spawned", task="worker:1", attempt=2)
        with Client(RunDirectory(run.run)) as client:
            client.call("hello")
        alive = 0
        for event in run.events(task="worker:1"):
            alive += {"Spawned": 1, "Swept": -1}.get(event["event"], 0)
            assert alive in (0, 1)


def test_half_a_line_is_no_request(up: Start) -> None:
    """A client that stops in the middle of a line gets its answer when it ends it."""
    with live(up) as run, connect(RunDirectory(run.run), 10) as slow:
        whole = b'{"jsonrpc":"2.0","id":5,"method":"hello"}\n'
        slow.sendall(whole[:20])
        slow.settimeout(0.2)
        with pytest.raises(socket.timeout):
            slow.recv(100)
        slow.settimeout(10)
        slow.sendall(whole[20:])
        assert json.loads(slow.recv(4096))["id"] == 5
