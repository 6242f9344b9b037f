"""The warm server of a session: one for all clusters of a Python process, which ends with that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterkit import Cluster, ClusterFailed
from clusterkit.api.supervisor import session
from clusterkit.store.directory import RunDirectory
from clusterkit.system import procfs
from clusterkit.warm.choice import launch_to_share
from clusterkit.warm.warm_client import SharedServer, WarmSession, ask, pids_of_run, stop, warm_dir
from clusterkit.words import events as ev
from tests.support import processes_of, wait_until

pytestmark = [pytest.mark.own_servers, pytest.mark.tensorflow, pytest.mark.timeout(240)]

PATIENCE = 100
SESSION = """
import os, signal, sys, threading
from clusterkit import Cluster
from clusterkit.api.supervisor import session

def train(go_on):
    import tensorflow
    if go_on:
        signal.pause()

found = []
def run(number):
    found.append(Cluster(train, args=[sys.argv[1] == "live"], workers=1, patience=100))
threads = [threading.Thread(target=run, args=[number]) for number in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
if sys.argv[1] == "over":
    [cluster.wait() for cluster in found]
if os.fork() == 0:  # with whatever this process holds open
    sys.stdout.close()
    signal.pause()
print(session().directory, *(cluster.directory for cluster in found), flush=True)
if sys.argv[1] == "live":
    signal.pause()
"""


def describe(number: int) -> tuple[int, bool]:
    """Return whether TensorFlow was imported before this function did so."""
    there = "tensorflow" in sys.modules
    import tensorflow as tf

    return int(tf.constant(number)) + 1, there


def hang() -> None:
    """Wait forever, in a function that does not import TensorFlow."""
    threading.Event().wait()


@pytest.fixture
def fresh(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WarmSession]:
    """A session without a server; it ends with the test as with its process."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(home))
    monkeypatch.setattr("clusterkit.api.supervisor._sessions", {})
    yield session()
    end(session())


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmSession]:
    """A session that the tests of this file have in common."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLUSTERKIT_HOME", str(tmp_path_factory.mktemp("users")))
        patch.setattr("clusterkit.api.supervisor._sessions", {})
        found = session()
    yield found
    end(found)


@pytest.fixture
def warm(shared: WarmSession, home: Path, monkeypatch: pytest.MonkeyPatch) -> WarmSession:
    """Make the shared session this process's."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(home))
    monkeypatch.setattr("clusterkit.api.supervisor._sessions", {os.getpid(): shared})
    return shared


def end(old: WarmSession) -> None:
    """End the session's servers."""
    for server in servers(old):
        os.kill(server["pid"], signal.SIGKILL)
        wait_until(lambda pid=server["pid"]: procfs.is_zombie(pid), 5, "the end of a server")  # type: ignore[misc]
    old.remove_directory()


def servers(of: WarmSession) -> list[dict[str, Any]]:
    """The status of the session's live servers."""
    return [ask(path, {"do": "status"}) for path in of.directory.glob("*.sock")]


def naming(text: str) -> list[int]:
    """Processes with this text in their command lines."""
    found = []
    for pid in procfs.all_pids():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(pid)
    return found


def run(program: Any, **options: Any) -> tuple[Any, list[ev.Event]]:
    """Run a cluster to its end; return the results of its functions, and its events."""
    with Cluster(program, patience=PATIENCE, restart="never", **options) as cluster:
        return cluster.wait().returns, list(cluster.events())


def imports(events: list[ev.Event]) -> list[str]:
    """The seconds that the fork servers took for their imports, equal for two forks of one server."""
    assert all(event.forked for event in events if isinstance(event, ev.Spawned))
    told = [event.text.partition(" ready after ")[2] for event in events if isinstance(event, ev.Noted)]
    return [text.partition(" s (pid ")[0] for text in told if text]


def test_clusters_of_one_session_come_from_one_server(warm: WarmSession, tmp_path: Path) -> None:
    """A function and a program; each run has its own fork server, which has not repeated the imports."""
    program = tmp_path / "program.py"
    program.write_text("import tensorflow as tf\nprint('the sum is', int(tf.constant(2) + 3))\n")
    returns, first = run(describe, args=[1], workers=2)
    assert returns == {"worker:0": (2, True), "worker:1": (2, True)}
    before = servers(warm)
    with Cluster(program, patience=PATIENCE) as cluster:
        cluster.wait()
        assert "the sum is 5" in cluster.tasks["worker:0"].logs()
    (server,) = servers(warm)
    assert len(before) == 1
    assert (server["made"], server["pid"]) == (before[0]["made"] + 1, before[0]["pid"])
    assert imports(first) == imports(list(cluster.events())) == [f"{server['seconds']:.1f}"]
    assert warm.directory.stat().st_mode & 0o777 == 0o700


def test_a_warm_functions_failure_shows_its_own_lines(warm: WarmSession) -> None:
    """As a cold one does."""

    def fail() -> None:
        import tensorflow as tf

        raise LookupError(f"not here, {tf.constant(1).numpy()}")

    with pytest.raises(ClusterFailed) as caught:
        run(fail)
    cause = caught.value.result.cause
    assert cause is not None
    assert (cause.exit.code, cause.tail[-1]) == (1, "LookupError: not here, 1")
    assert [line for line in cause.tail if "File " in line and Path(__file__).name not in line] == []


@pytest.mark.parametrize("which", ["nobody", "supervisor", "guardian"])
def test_a_stop_ends_a_run_that_a_server_started(
    warm: WarmSession, home: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """In order; also if guardian or supervisor hangs, of which neither is a descendant of this process."""
    monkeypatch.setattr("clusterkit.api.supervisor.PUSH", 1.0)
    cluster = Cluster(hang, workers=2, start="warm", patience=PATIENCE)
    both = ["guardian", "supervisor"]
    # The guardian may execute its program later than the supervisor has started tasks.
    wait_until(lambda: sorted(pids_of_run(cluster.run_id, home)) == both, 10, "guardian and supervisor")
    pids = pids_of_run(cluster.run_id, home)
    if which == "nobody":
        assert (cluster.stop().exit_code, cluster.result.ok) == (143, False)
    else:
        os.kill(pids[which], signal.SIGSTOP)
        assert not cluster.stop(0.3).ok
    assert not RunDirectory(cluster.directory).is_live()
    wait_until(lambda: not processes_of(home) and not naming(cluster.run_id), 5, "the end of the run")
    assert len(servers(warm)) == 1


def test_a_server_that_was_killed_is_replaced(warm: WarmSession) -> None:
    """A run that it had started continues."""
    with Cluster(hang, start="warm", patience=PATIENCE) as cluster:
        (old,) = servers(warm)
        os.kill(old["pid"], signal.SIGKILL)
        wait_until(lambda: procfs.is_zombie(old["pid"]), 5, "its end")
        returns, _ = run(describe, args=[1])
        assert returns == {"worker:0": (2, True)}
        assert cluster.running
    (new,) = servers(warm)
    assert (new["made"], new["pid"] != old["pid"]) == (1, True)


def test_a_cold_run_starts_no_server(fresh: WarmSession) -> None:
    """By option, or since the program does not use TensorFlow."""
    returns, events = run(lambda: "tensorflow", start="cold")
    assert returns == {"worker:0": "tensorflow"}
    run(lambda: "tensor" + "flow".upper())
    assert not fresh.directory.exists()
    assert not any(event.forked for event in events if isinstance(event, ev.Spawned))


@pytest.mark.long
def test_the_users_own_server_comes_first(fresh: WarmSession, tmp_path: Path) -> None:
    """Also for runs with another home, such as those of the pytest plugin."""
    place = SharedServer(warm_dir(), launch_to_share([]))
    place.start(60)
    try:
        returns, _ = run(describe, args=[1], home=tmp_path / "other")
        assert returns == {"worker:0": (2, True)}
        assert ask(place.socket, {"do": "status"})["made"] == 1
        assert not fresh.directory.exists()
    finally:
        stop(place.socket)


def test_without_its_server_a_run_continues(fresh: WarmSession) -> None:
    """With one sentence that gives the reason."""
    fresh.directory.mkdir(mode=0o755)
    with Cluster(describe, args=[1], patience=PATIENCE) as cluster:
        assert cluster.wait().ok
    said = (cluster.directory / "console.log").read_text()
    assert said.count(f"{fresh.directory} is not private to this user, so no warm server can listen there.") == 1


@pytest.mark.parametrize("how", ["over", pytest.param("live", marks=pytest.mark.long)])
def test_nothing_is_left_of_a_session(home: Path, tmp_path: Path, how: str) -> None:
    """It ends after its runs, or is killed while two are live that were started at once. A fork of it continues."""
    script = tmp_path / "session.py"
    script.write_text(SESSION)
    env = {**os.environ, "CLUSTERKIT_HOME": str(home), "TMPDIR": str(tmp_path)}
    command = [sys.executable, str(script), how]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    with process.stdout as told:
        directory, *runs = told.readline().split()
    try:
        if how == "live":
            (server,) = [ask(path, {"do": "status"}) for path in Path(directory).glob("*.sock")]
            assert (server["made"], server["runs"]) == (2, 2)
            assert all(RunDirectory(Path(one)).is_live() for one in runs)
            process.kill()
        process.wait(20)
        wait_until(lambda: not naming(directory), 5, "the end of the server")
        wait_until(lambda: not any(RunDirectory(Path(one)).is_live() for one in runs), 5, "the end of the runs")
        wait_until(lambda: not any(naming(Path(one).name) for one in runs), 5, "the end of what was around them")
        assert not Path(directory).exists()
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its fork
    wait_until(lambda: not processes_of(home), 5, "the end of the fork")
    results = [json.loads((Path(one) / "result.json").read_text())["reason"] for one in runs]
    assert all(("process that started the run is gone" in reason) is (how == "live") for reason in results), results
