"""TensorBoard beside a run and for a finished one: the real one, which begins and ends with what it belongs to."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from clusterkit.system import procfs
from tests.commands import Clusterkit
from tests.losses import lose
from tests.strangers import connected
from tests.support import CHILDREN, Command, Up, processes_of, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

STARTS_WITHIN = 60.0  # seconds; it takes three, and more where tests run side by side
Start = Callable[..., Up]
USED = {"task/cpu_percent", "task/memory_bytes"}
TOLD = {"loss", "task/step", "task/steps_per_second"}


def get(address: str, path: str, **query: str) -> Any:
    """Fetch a document from TensorBoard."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=20)
    connection.request("GET", f"/data/plugin/scalars/{path}?{urlencode(query)}")
    with connection.getresponse() as response:
        found = json.loads(response.read())
    connection.close()
    return found


def shows(address: str, run: str, tags: set[str]) -> None:
    """Wait until TensorBoard shows these tags of a run."""
    wait_until(lambda: tags <= set(get(address, "tags").get(run, {})), 30, lambda: f"{tags} in {get(address, 'tags')}")


def answers_nobody_else(port: int) -> None:
    """Another user's request gets no answer, and neither does one for another host."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/", headers={"host": f"rebound.example:{port}"})
    assert connection.getresponse().status == 421
    connection.close()
    if os.getuid() == 0:
        with connected(("127.0.0.1", port)) as stranger, suppress(ConnectionResetError, BrokenPipeError):
            stranger.sendall(b"GET / HTTP/1.0\r\nhost: localhost\r\n\r\n")
            assert stranger.recv(1) == b""


def board_of(home: Path) -> int | None:
    """The pid of the process beside a run."""
    found = [pid for pid in processes_of(home) if procfs.environ(pid).get("CLUSTERKIT_TASK") == "tensorboard"]
    return found[0] if found else None


def address_of(command: Command) -> str:
    """The address that `clusterkit tensorboard` prints."""

    def found() -> re.Match[str] | None:
        assert command.process.poll() is None, command.output
        return re.search(r"at (http://\S+)", command.output)

    match: re.Match[str] = wait_until(found, STARTS_WITHIN, lambda: f"the address; it printed {command.output}")
    return match[1]


def test_it_shows_a_run_and_ends_with_it(up: Start, home: Path, tmp_path: Path) -> None:
    """It shows loss, steps, CPU and memory of each task, on localhost only, without loading TensorFlow."""
    stop = tmp_path / "stop"
    run = up("--tensorboard", "--workers", "2", CHILDREN / "reports.py", stop)
    address = run.wait_for("TensorBoardReady", STARTS_WITHIN)["address"]
    wait_until(lambda: f"TensorBoard answers at {address}" in run.output, 20, "the sentence")
    for task in ("worker:0", "worker:1"):
        shows(address, f"clusterkit/{task}", TOLD | USED)
    pid = wait_until(lambda: board_of(home), 5, "its process")
    assert "tensorflow" not in Path(f"/proc/{pid}/maps").read_text()
    own = procfs.links(pid)
    listening = [f[1] for f in procfs.tcp_sockets(pid, procfs.LISTENS) if f"socket:[{f[9]}]" in own]
    assert [text.partition(":")[0] for text in listening] == ["0100007F"]
    stop.touch()
    assert run.wait(30) == 0
    assert not Path(f"/proc/{pid}").exists()
    assert (run.run / "tensorboard.log").read_text() == ""


@pytest.mark.parametrize("targets", [("supervisor",), ("guardian", "supervisor")], ids=" and ".join)
def test_it_does_not_outlive_the_supervisor(up: Start, home: Path, tmp_path: Path, targets: tuple[str, ...]) -> None:
    """It ends with the supervisor, as tasks do, whichever process is killed."""
    run = up("--tensorboard", CHILDREN / "reports.py", tmp_path / "stop")
    run.wait_for("Spawned")
    wait_until(lambda: board_of(home), 10, "its process")
    lose(run, targets)
    wait_until(lambda: not processes_of(home), 5, lambda: f"the end of {processes_of(home)}")


def test_a_run_goes_on_when_it_is_killed(up: Start, home: Path, tmp_path: Path) -> None:
    """The run prints one warning and finishes."""
    stop = tmp_path / "stop"
    run = up("--tensorboard", CHILDREN / "reports.py", stop)
    run.wait_for("Progressed")
    os.kill(wait_until(lambda: board_of(home), 10, "its process"), signal.SIGKILL)
    warned = run.wait_for("Warned", 10)["text"]
    stop.touch()
    assert run.wait(30) == 0
    assert warned.startswith("TensorBoard is not available: its process has ended (its log: ")
    assert len(run.events("Warned")) == 1
    assert run.result["restarts"] == 0


def test_a_finished_run_can_be_shown_again_and_again(ck: Clusterkit, clusterkit: Callable[..., Command]) -> None:
    """Its scalars are written from the journal once, and a free port can be chosen."""
    run = ck.up("--workers", "1", CHILDREN / "roles.py", "--steps", "50")
    assert ck("wait", run.name).code == 0
    for _ in range(2):
        shown = clusterkit("tensorboard", run.name)
        address = address_of(shown)
        shows(address, "clusterkit/worker:0", {"loss", "task/step"})
        query = {"run": "clusterkit/worker:0", "tag": "loss"}
        wait_until(lambda: get(address, "scalars", **query)[-1][1] == 50, 30, "the last step")  # noqa: B023
        losses = get(address, "scalars", **query)
        assert losses[-1][1:] == [50, pytest.approx(1 / 50)]
        assert len({step for _, step, _ in losses}) == len(losses)
        answers_nobody_else(urlsplit(address).port or 0)
        shown.signal(signal.SIGINT)
        assert shown.wait(20) == 0
    assert len(list((run / "tensorboard/clusterkit/worker:0").iterdir())) == 1
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = ck("tensorboard", run.name, "--port", port, code=1, deadline=STARTS_WITHIN)
    assert "TensorBoard failed:" in refused.err
    assert port in refused.err
