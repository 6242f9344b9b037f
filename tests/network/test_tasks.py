"""Tasks in a virtual network: they reach only each other, are otherwise unchanged, and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from clusterkit.network.virtual import why_not
from clusterkit.system import procfs
from clusterkit.task.entry import ENTRY
from tests.commands import Clusterkit
from tests.servers import WORLD, Commands, Warm, short_home, world
from tests.support import CHILDREN, ROOT, Up, processes_of, wait_until

WHY_NOT = why_not(network=True, disk=False)
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(60),
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no virtual network here: {WHY_NOT}"),
]
PEERS = CHILDREN / "peers.py"
VIRTUAL = ("--network", "virtual")
TRY = """
import socket, sys
for address in sys.argv[2:]:
    try:
        print(socket.create_connection((address, 2222), float(sys.argv[1])).recv(6))
    except OSError:
        pass
"""
Start = Callable[..., Up]


@pytest.fixture
def home() -> Iterator[Path]:
    """Sockets are in it."""
    with short_home() as path:
        yield path


def switch_of(run: Up) -> int:
    """The switch's pid, found as `reap` finds it."""
    mine = [pid for pid in processes_of(run.home) if procfs.environ(pid).get("CLUSTERKIT_RUN_DIR") == str(run.run)]
    (pid,) = [pid for pid in mine if procfs.environ(pid).get("CLUSTERKIT_TASK") == "switch"]
    return pid


def known_world(run: Up, task: str) -> dict[str, Any]:
    """A task's report about its environment, once the supervisor knows the task, which may start a moment earlier."""
    told = world(run, task)
    run.wait_for("Spawned", task=task)
    return told


@contextmanager
def kept_networks(run: Up, *tasks: str) -> Iterator[set[str]]:
    """The network namespaces of tasks, which this process keeps open so that their numbers are not reused."""
    nets = set()
    with ExitStack() as stack:
        for task in tasks:
            net = os.open(f"/proc/{known_world(run, task)['pid']}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, net)
            nets.add(str(Path(f"/proc/self/fd/{net}").readlink()))
        yield nets


def inside(namespaces: set[str]) -> set[int]:
    """Other processes that are in one of these network namespaces, or have one open."""
    others = (pid for pid in procfs.all_pids() if pid != os.getpid())
    return {pid for pid in others if (procfs.links(pid) | {own("net", pid)}) & namespaces}


def own(kind: str, pid: int | str = "self") -> str:
    """The namespace of a process, by default this one; empty if it can't be read."""
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    return ""


STARTS = {
    "cold": ("--start", "cold", PEERS),
    "forked": ("--preload", "preloads.good", PEERS),
    "command": ("env", sys.executable, PEERS),
    "cold command": ("--start", "cold", "env", sys.executable, PEERS),
}


@pytest.mark.parametrize("start", STARTS)
def test_tasks_reach_each_other_by_their_addresses(up: Start, tmp_path: Path, start: str) -> None:
    """However they start; TF_CONFIG has the addresses, and no task sees another's devices."""
    run = up("--workers", "3", "--ps", "1", "--evaluator", *VIRTUAL, *STARTS[start], tmp_path / "end")
    tasks = {f"{kind}:{i}": f"10.77.0.{n}" for n, (kind, i) in enumerate([
        ("chief", 0), ("worker", 0), ("worker", 1), ("worker", 2), ("ps", 0), ("evaluator", 0)], 1)}  # fmt: skip
    said = {task: world(run, task) for task in tasks}
    (tmp_path / "end").touch()
    assert run.wait(30) == 0, run.output
    endpoints = {f"{address}:2222" for task, address in tasks.items() if task != "evaluator:0"}
    assert set(run.job["endpoints"].values()) == endpoints
    for task, address in tasks.items():
        reached, mine = said[task]["reached"], f"{address}:2222"
        assert reached == {end: end[:-5] if end == mine else address for end in endpoints}
        assert sorted(said[task]["devices"]) == ["eth0", "lo", "tun0"]
        assert said[task]["reuses"] is None
        assert said[task]["dies_with_parent"] == signal.SIGKILL
        assert said[task]["descriptors"] == [0, 1, 2, 3, *([] if "command" in start else [100])]
    nets = [seen["namespaces"]["net"] for seen in said.values()]
    assert len({*nets, own("net")}) == 7


def test_a_task_is_otherwise_what_it_is_on_the_host(home: Path, up: Start, clusterkit: Commands) -> None:
    """Rights, user, directory, descriptors, signals, environment: started cold, forked, or from a shared server."""
    warm = Warm(home, up, clusterkit)
    wanted = {"cold": ("--start", "cold"), "forked": (), "shared": ()}
    seen = {}
    for start, words in wanted.items():
        server = warm.start() if start == "shared" else None
        for network in ("host", "virtual"):
            run = warm.up("--run-id", f"{start}-{network}", "--workers", "2", "--network", network, *words, WORLD)
            seen[start, network] = world(run)
            assert run.wait(30) == 0, run.output
            assert run.events("Noted", server="cold") == []
            assert server in (None, seen[start, network]["imported_by"])
        on_host = dict(seen[start, "host"]["world"]["env"])
        assert on_host.pop("TF_GRPC_REUSE_PORT") == "true"
        assert seen[start, "virtual"]["world"] == {**seen[start, "host"]["world"], "env": on_host}
    warm("stop")


def test_a_restarted_task_keeps_its_address_and_namespace(up: Start, tmp_path: Path) -> None:
    """All attempts of a task have its address and namespace."""
    run = up("--workers", "2", "--restart-scope", "task", "--restart-backoff", "0", *VIRTUAL, PEERS, tmp_path / "end")
    before = known_world(run, "worker:1")
    run.kill("worker:1")
    run.wait_for("Spawned", task="worker:1", attempt=2)
    second = wait_until(lambda: run.log("worker:1", 2), 20, "what the second attempt says")
    after = json.loads(second)
    (tmp_path / "end").touch()
    assert run.wait(20) == 0
    assert after["namespaces"] == before["namespaces"]
    assert after["reached"] == before["reached"]


def test_nobody_else_reaches_a_task(up: Start, home: Path, tmp_path: Path) -> None:
    """Neither this machine nor another host: there is no route to the addresses, and no port listens here."""
    run = up("--workers", "2", *VIRTUAL, PEERS, tmp_path / "end")
    for task in ("worker:0", "worker:1"):
        assert len(known_world(run, task)["reached"]) == 2
    assert {port for pid in processes_of(home) for port in procfs.listening_ports_of(pid)} == set()
    listen = {task: procfs.listening_ports(pids[-1]) for task, pids in run.pids().items()}
    assert listen == {"worker:0": {2222}, "worker:1": {2222}}
    words = [sys.executable, "-c", TRY, "0.5", "10.77.0.1", "10.77.0.2"]
    for command in (words, ["unshare", *([] if os.getuid() == 0 else ["--map-root-user"]), "--net", *words]):
        assert "task" not in subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    joined = ["nsenter", "--net", f"--target={run.pids()['worker:0'][0]}", sys.executable, "-c", TRY, "20"]
    if os.getuid() == 0:
        assert "task" in subprocess.run([*joined, "10.77.0.2"], capture_output=True, text=True, timeout=20).stdout
    (tmp_path / "end").touch()
    assert run.wait(20) == 0


@pytest.mark.parametrize("victim", ["supervisor", "guardian", "both", "all"])
def test_nothing_outlives_a_run_that_is_killed(up: Start, home: Path, tmp_path: Path, victim: str) -> None:
    """No process, and no namespace or device, since only the run's processes keep them."""
    run = up("--workers", "2", "--preload", "preloads.good", *VIRTUAL, PEERS, tmp_path / "end")
    with kept_networks(run, "worker:0", "worker:1") as nets:
        tasks = {pid for pids in run.pids().values() for pid in pids}
        assert inside(nets) == {run.supervisor, switch_of(run), *tasks}
        pids = {
            "supervisor": [run.supervisor],
            "guardian": [run.process.pid],
            "both": [run.supervisor, run.process.pid],
            "all": list(processes_of(home)),
        }[victim]
        if len(pids) > 1:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)  # none of them can act on another's death
        for pid in pids:
            with suppress(ProcessLookupError):  # the kernel sends a task KILL itself when its parent dies
                os.kill(pid, signal.SIGKILL)
        run.wait(10)
        wait_until(lambda: not processes_of(home) and not inside(nets), 5, lambda: f"nothing; {processes_of(home)}")


def test_a_run_fails_when_its_switch_is_killed(up: Start, tmp_path: Path) -> None:
    """At once and with a sentence, since tasks can't reach each other any longer."""
    run = up("--workers", "2", *VIRTUAL, PEERS, tmp_path / "end")
    with kept_networks(run, "worker:0", "worker:1") as nets:
        os.kill(switch_of(run), signal.SIGKILL)
        assert run.wait(10) == 1
        assert run.result["reason"] == (
            "clusterkit's switch, which carries the tasks' packets, is gone, so everything was ended at once"
        )
        assert inside(nets) == set()


def test_packets_are_captured_until_the_end(up: Start, tmp_path: Path) -> None:
    """The file is complete when the run is over."""
    run = up("--workers", "2", *VIRTUAL, "--pcap", "run.pcap", PEERS, tmp_path / "end", cwd=tmp_path)
    assert [len(world(run, task)["reached"]) for task in ("worker:0", "worker:1")] == [2, 2]
    (tmp_path / "end").touch()
    assert run.wait(20) == 0
    packets = (tmp_path / "run.pcap").read_bytes()
    assert packets[:4] == bytes.fromhex("d4c3b2a1")
    syn = [bytes([10, 77, 0, a, 10, 77, 0, b]) for a, b in ((1, 2), (2, 1))]
    assert all(way in packets for way in syn)


def test_a_detached_run_is_ready_when_its_tasks_listen(ck: Clusterkit, home: Path, tmp_path: Path) -> None:
    """Each at its own address; a port of this machine with the same number does not count."""
    up = subprocess.Popen(
        [sys.executable, "-m", "clusterkit", "up", "-d", "--run-id", "one", "--workers", "2", *VIRTUAL,
         CHILDREN / "listens.py", tmp_path / "go", tmp_path / "end"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env=ck.environment(),
    )  # fmt: skip
    log = home / "runs/one/tasks/worker:1/attempt-1.log"
    wait_until(lambda: log.exists() and b"up" in log.read_bytes(), 20, "a task that runs")
    with socket.socket() as other, suppress(OSError):
        other.bind(("127.0.0.1", 2222))
        other.listen()
        assert up.poll() is None
    (tmp_path / "go").touch()
    out, err = up.communicate(timeout=20)
    assert (up.returncode, out) == (0, "one\n")
    *ready, follow = err.splitlines()
    assert sorted(ready) == [" ✔ worker:0 is ready", " ✔ worker:1 is ready"]
    assert "clusterkit attach one" in follow
    (tmp_path / "end").touch()
    ck("wait", "one")


@pytest.mark.skipif(why_not(network=False, disk=True) is not None, reason="no full disk here")
@pytest.mark.parametrize("start", STARTS)
def test_a_disk_that_is_not_full_changes_nothing(up: Start, tmp_path: Path, start: str) -> None:
    """Tasks with a mount namespace and without a network start in the same directory."""
    words = ("--workers", "2", "--cwd", tmp_path, "--fault", "disk-full @ 1000s")
    env = {"PYTHONPATH": f"{CHILDREN}{os.pathsep}{ROOT}"}
    run = up(*words, *STARTS[start], tmp_path / "end", env=env)
    said, _ = [world(run, task) for task in ("worker:0", "worker:1")]
    (tmp_path / "end").touch()
    assert run.wait(20) == 3, run.output  # the disk never got full
    assert said["cwd"] == str(tmp_path)
    assert said["namespaces"]["net"] == own("net")
    assert said["namespaces"]["mnt"] != own("mnt")
    assert (said["reuses"], said["dies_with_parent"]) == ("true", signal.SIGKILL)


@pytest.mark.parametrize("kind", ["script", "command"])
def test_a_task_that_can_not_join_does_not_run(tmp_path: Path, kind: str) -> None:
    """It ends with a message: it never runs in a network other than its own."""
    program = tmp_path / "program.py"
    program.write_text("print('it runs')")
    target = [str(program)] if kind == "script" else [sys.executable, str(program)]
    with Path(os.devnull).open("wb") as stacks, Path(os.devnull).open("rb") as nothing:
        descriptors = (stacks.fileno(), nothing.fileno())
        words = [sys.executable, ENTRY, str(os.getpid()), ",".join(map(str, descriptors)), kind, *target]
        ran = subprocess.run(words, pass_fds=descriptors, capture_output=True, text=True, timeout=20)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == ("clusterkit: this task can't join its namespaces: Inappropriate ioctl for device.\n")
