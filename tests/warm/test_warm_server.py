"""Warm servers that runs share, with a stand-in for TensorFlow that imports fast."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from clusterkit.system import procfs
from clusterkit.warm import warm_server
from clusterkit.warm.warm_server import WarmServer
from tests.servers import WORLD, Commands, Warm, parent, short_home, world
from tests.support import Up, fork_server_of, processes_of, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture
def home() -> Iterator[Path]:
    """Sockets are in it."""
    with short_home() as path:
        yield path


def own(run: Up) -> list[str]:
    """The run's messages about warm servers and cold starts."""
    return [line for line in run.output.splitlines() if "warm server" in line or "cold" in line]


def says(warm: Warm, words: str) -> bool:
    """Whether `clusterkit warm status` prints these words."""
    return words in warm("status")


def test_start_status_and_stop(warm: Warm, home: Path) -> None:
    """A second start has no effect; without a server, `status` exits with 1 and `stop` does nothing."""
    assert "No warm server is running" in warm("status", code=1)
    assert warm("stop") == "No warm server is running.\n"
    pid = warm.start()
    assert warm.start() == pid
    said = warm("status")
    assert f"pid {pid}, tensorflow, " in said
    assert " MB, 0 of 0 runs live; it stays for another 30 min\n" in said
    assert f"(pid {pid}) was stopped" in warm("stop")
    wait_until(lambda: procfs.is_zombie(pid), 5, "its end")
    warm("status", code=1)
    assert list(home.glob("warm/*.sock")) == []


def test_a_server_may_stay_for_long(warm: Warm) -> None:
    """Longer than the maximum of epoll."""
    warm.start("--idle", "60d")
    assert "it stays for another 86400 min" in warm("status")
    warm("stop")


@pytest.mark.parametrize("verb", ["status", "stop"])
def test_an_unreadable_state_directory_is_one_clear_error(warm: Warm, verb: str) -> None:
    """As in every command."""
    said = warm(verb, code=2, CLUSTERKIT_HOME=f"/tmp/{'x' * 300}")
    assert said.startswith("clusterkit: ")
    assert said.endswith("/warm can't be used: file name too long.\n")


def test_a_server_that_can_not_import_is_reported(warm: Warm, home: Path) -> None:
    """And ends."""
    (warm.library / "tensorflow" / "__init__.py").write_text("import no_such_module")
    said = warm("start", code=1)
    assert "ModuleNotFoundError: No module named 'no_such_module'" in said
    assert "Traceback" not in said
    wait_until(lambda: not processes_of(home), 5, "its end")


def test_the_server_starts_runs(warm: Warm, tmp_path: Path) -> None:
    """One after the other: nothing is imported again, and the run is not a descendant of the command."""
    pid = warm.start()
    for made in (1, 2):
        end = tmp_path / f"end-{made}"
        run = warm.up("--run-id", f"r{made}", "--workers", "2", WORLD, end)
        assert {world(run, f"worker:{index}")["imported_by"] for index in (0, 1)} == {pid}
        assert f"1 of {made} runs live; it stays while runs are live" in warm("status")
        assert run.supervisor not in procfs.descendants(run.process.pid)
        end.touch()
        assert run.wait(20) == 0
        assert own(run) == []
        over = f"0 of {made} runs live; it stays for another 30 min"
        wait_until(partial(says, warm, over), 5, "it is over")


def test_two_runs_at_once(warm: Warm, tmp_path: Path) -> None:
    """Each has its own guardian, supervisor and fork server."""
    pid = warm.start()
    runs = [warm.up("--run-id", f"r{number}", WORLD, tmp_path / "end") for number in (1, 2)]
    assert [world(run)["imported_by"] for run in runs] == [pid, pid]
    assert "2 of 2 runs live" in warm("status")
    assert len({parent(run.supervisor) for run in runs}) == len({run.fork_server() for run in runs}) == 2
    (tmp_path / "end").touch()
    assert [run.wait(20) for run in runs] == [0, 0]


def test_a_run_with_another_environment_does_not_use_the_server(warm: Warm) -> None:
    """With another import-time variable it has its own fork server, without a message; others do not matter."""
    pid = warm.start()
    run = warm.up("--run-id", "other", WORLD, env={"OMP_NUM_THREADS": "1"})
    assert run.wait(20) == 0
    assert world(run)["imported_by"] != pid
    assert own(run) == []
    same = warm.up("--run-id", "same", WORLD, env={"MINE": "1"})
    assert same.wait(20) == 0
    assert world(same)["imported_by"] == pid
    cold = warm.up("--run-id", "cold", "--start", "cold", WORLD)
    assert cold.wait(20) == 0
    assert world(cold)["imported_by"] == world(cold)["pid"]


@pytest.mark.parametrize(
    ("args", "number", "code"), [(["0"], 0, 0), (["0", "3"], 0, 1), (["60"], 2, 130), (["60"], 15, 143)]
)
def test_the_exit_code_is_that_of_the_run(warm: Warm, home: Path, args: list[str], number: int, code: int) -> None:
    """Signals reach the run through the command."""
    pid = warm.start()
    run = warm.up("--restart", "never", WORLD, *args)
    assert world(run)["imported_by"] == pid
    if number:
        run.signal(number)
    assert run.wait(20) == code
    assert set(processes_of(home)) == {pid}


@pytest.mark.parametrize(("victim", "code"), [("command", -9), ("guardian", 1), ("supervisor", 1)])
def test_sigkill_of_one_process_of_a_run_ends_the_run(warm: Warm, home: Path, victim: str, code: int) -> None:
    """And nothing else: the server remains for the next run."""
    pid = warm.start()
    run = warm.up("--workers", "2", "--grace-period", "1", WORLD, "60")
    for index in (0, 1):
        assert world(run, f"worker:{index}")["imported_by"] == pid
    processes = {"command": run.process.pid, "supervisor": run.supervisor, "guardian": parent(run.supervisor)}
    assert parent(processes["guardian"]) == pid
    os.kill(processes[victim], signal.SIGKILL)
    assert run.wait(10) == code
    wait_until(lambda: set(processes_of(home)) == {pid}, 5, lambda: f"the end of it; left: {processes_of(home)}")
    assert "Traceback" not in run.output
    again = warm.up("--run-id", "again", WORLD)
    assert again.wait(20) == 0
    assert world(again)["imported_by"] == pid


def test_sigkill_of_the_runs_fork_server_has_no_effect(warm: Warm, home: Path, tmp_path: Path) -> None:
    """The run starts its own replacement."""
    warm.start()
    run = warm.up(WORLD, tmp_path / "end")
    world(run)
    os.kill(run.fork_server(), signal.SIGKILL)
    second = run.fork_server(count=2)
    assert parent(second) == run.supervisor
    (tmp_path / "end").touch()
    assert run.wait(20) == 0
    assert len(run.pids()["worker:0"]) == 1
    assert fork_server_of(home) is None


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_the_end_of_the_server_has_no_effect_on_a_run(warm: Warm, home: Path, tmp_path: Path, how: str) -> None:
    """Restarts are forked as before. The next run reports that the server is gone, and starts without it."""
    pid = warm.start()
    run = warm.up("--restart-backoff", "0", "--restart-budget", "1", WORLD, tmp_path / "end", "1")
    world(run)
    if how == "killed":
        os.kill(pid, signal.SIGKILL)
    else:
        warm("stop")
    wait_until(lambda: procfs.is_zombie(pid), 5, "its end")
    (tmp_path / "end").touch()
    assert run.wait(20) == 1
    assert run.events("Noted", server="lost") == []
    assert [json.loads(run.log("worker:0", attempt))["imported_by"] for attempt in (1, 2)] == [pid, pid]
    again = warm.up("--run-id", "again", WORLD)
    assert again.wait(20) == 0
    begun = "The run begins without the warm server: it does not answer (Connection refused)."
    assert [line.partition(" │ ")[2] for line in own(again)] == ([begun] if how == "killed" else [])
    assert "No warm server is running" in warm("status", code=1)
    assert list(home.glob("warm/*.sock")) == []


def test_an_idle_server_ends(warm: Warm, home: Path) -> None:
    """After its idle time, and its socket is removed."""
    pid = warm.start("--idle", "4s")
    wait_until(lambda: procfs.is_zombie(pid), 15, "its end")
    assert list(home.glob("warm/*.sock")) == []


def test_a_server_stays_while_a_run_is_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that is; then its idle time starts over."""
    now = 100.0
    monkeypatch.setattr(warm_server, "time", SimpleNamespace(monotonic=lambda: now))
    server = WarmServer.__new__(WarmServer)  # without the imports
    server.options, server.last_used, server.clients = {"idle": 4.0}, now, {}
    over = subprocess.Popen(["true"])
    pidfd = os.pidfd_open(over.pid)
    server.runs = {pidfd: over.pid}
    now += 1000
    assert (server.idle_seconds(), server.timeout()) == (None, 86400.0)
    os.waitid(os.P_PID, over.pid, os.WEXITED | os.WNOWAIT)
    server.reap_run(pidfd)
    assert (server.idle_seconds(), server.timeout()) == (4.0, 4.0)
    now += 5
    assert (server.idle_seconds(), server.timeout()) == (0.0, 0.0)
    assert over.wait() == 0


def test_files_that_changed_end_the_server(warm: Warm) -> None:
    """The run starts without it, with the installed files, and reports that in one line."""
    pid = warm.start()
    module = warm.library / "tensorflow" / "__init__.py"
    module.write_text(module.read_text() + "NEW = True\n")
    run = warm.up(WORLD)
    assert run.wait(20) == 0
    assert world(run)["imported_by"] != pid
    why = "The run begins without the warm server: files that it has imported have changed."
    assert [line.partition(" │ ")[2] for line in own(run)] == [why]
    wait_until(lambda: procfs.is_zombie(pid), 5, "its end")


def test_a_detached_run(warm: Warm, clusterkit: Commands) -> None:
    """`up -d` returns, the run continues, and can be ended by its id."""
    pid = warm.start()
    detached = warm.up("-d", "--run-id", "mine", WORLD, "60")
    assert detached.wait(20) == 0, detached.output
    assert world(detached)["imported_by"] == pid
    assert clusterkit("down", "mine").wait(20) == 0
    wait_until(partial(says, warm, "0 of 1 runs live"), 5, "its end")
