"""The checks of a fork server before it reports that it can fork, and its protocol."""

from __future__ import annotations

import os
import socket
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from clusterkit.system import exchange, procfs
from clusterkit.warm import fork_server, fresh


def test_a_process_without_threads_and_devices_can_be_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the checks finds a problem."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.delitem(sys.modules, "tensorflow.python.eager.context", raising=False)
    assert fresh.why_unsafe() is None


@pytest.mark.parametrize("device", ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/kfd", "/dev/dri/card0"])
def test_a_process_with_an_open_gpu_can_not(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """A fork would share its context, which the driver forbids. Without a GPU here, the link in /proc is faked."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.delitem(sys.modules, "tensorflow.python.eager.context", raising=False)
    real = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path: device if path == "/proc/self/fd/0" else real(path))
    problem = fresh.why_unsafe()
    assert problem == "a preloaded module has opened a GPU, which can't be used after a fork"


def test_a_process_with_a_thread_can_not() -> None:
    """The thread is named."""
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, name="a pool")
    thread.start()
    problem = fresh.why_unsafe()
    ended.set()
    thread.join()
    assert problem is not None
    assert "has started threads" in problem
    assert "a pool" in problem


@pytest.mark.parametrize(("initialized", "can"), [(True, False), (False, True)])
def test_a_process_whose_tensorflow_knows_its_devices_can_not(
    monkeypatch: pytest.MonkeyPatch, initialized: bool, can: bool
) -> None:
    """TensorFlow's threads, which Python does not know, are gone in a fork."""
    context = ModuleType("tensorflow.python.eager.context")
    context.__dict__["_context"] = SimpleNamespace(_initialized=initialized)
    monkeypatch.setitem(sys.modules, "tensorflow.python.eager.context", context)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert (fresh.why_unsafe() is None) is can


def test_a_fork_that_fails_leaves_no_descriptor_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers with the error, and serves the next request."""

    def no_fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(fork_server, "quiet_fork", no_fork)
    channel = socket.socket()
    made: list[int] = []
    real = os.pipe

    def pipe() -> tuple[int, int]:
        ends = real()
        made.append(os.fstat(ends[0]).st_ino)
        return ends

    monkeypatch.setattr(os, "pipe", pipe)
    server = fork_server.Server(ModuleType("entry"), channel)
    assert server.fork({"how": "script"}, []) is None
    assert server.pending == [fork_server.PendingAnswer(-1, None, 11)]
    assert [f"pipe:[{inode}]" in procfs.links(os.getpid()) for inode in made] == [False]
    channel.close()


def test_a_request_is_sent_in_one_call() -> None:
    """Else a client that is stopped within a request would count as hanging."""
    ours, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # what is received is what one call sent
    other.setblocking(False)
    with ours, other, Path(os.devnull).open() as null:
        exchange.ask(ours, {"do": "status"}, [null.fileno()], 1.0)
        message, descriptors, _, _ = socket.recv_fds(other, 1 << 16, 8)
        assert message == b'\0\0\0\x10{"do": "status"}'
        os.close(*descriptors)
        with pytest.raises(BlockingIOError):
            other.recv(1)


NO_REQUESTS = {
    "it hangs": (b"\0\0\0\2{", False, TimeoutError),
    "it closes": (b"\0\0\0\2{", True, None),
    "it is no JSON": (b"\0\0\0\2{{", False, ValueError),
}


@pytest.mark.parametrize(("message", "closes", "error"), NO_REQUESTS.values(), ids=NO_REQUESTS)
def test_an_invalid_request_leaves_no_descriptor_open(
    message: bytes, closes: bool, error: type[Exception] | None
) -> None:
    """A warm server serves other clients for days."""
    ours, other = socket.socketpair()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with ours, other:
        socket.send_fds(ours, [message], [writer])
        os.close(writer)
        if closes:
            ours.close()
        with pytest.raises(error) if error else nullcontext():
            assert fork_server.receive(other, 0.01) is None
    assert os.read(reader, 1) == b"", "nobody has the other end"
    os.close(reader)
