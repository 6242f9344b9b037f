"""The end of a virtual network, whichever process is killed, and a network without root's rights."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from clusterkit.network.virtual import NetworkPlan, VirtualNetwork, why_not
from clusterkit.system import procfs
from clusterkit.words.model import Task
from tests.support import CHILDREN, ROOT, wait_until

WHY_NOT = why_not(True, True)
pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(60),
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no virtual network here: {WHY_NOT}"),
]
OWNER = """
import json, os, signal, sys
from pathlib import Path
from clusterkit.network.virtual import NetworkPlan, VirtualNetwork
from clusterkit.words.model import Task
tasks = [Task.parse("worker:0"), Task.parse("worker:1")]
network = VirtualNetwork(NetworkPlan(tasks, 1), Path(sys.argv[1]), {"CLUSTERKIT_TASK": "switch"})
# The last one is that of the network; whoever is not root has a user namespace before it.
inodes = [os.fstat(network.namespaces(task)[-1]).st_ino for task in tasks]
print(json.dumps({"pid": network.pid, "inodes": inodes}), flush=True)
signal.pause()
"""
NOBODY = 65534


def holders(inodes: Iterable[int], run: Path) -> set[int]:
    """This process, and those of a run, that are in one of these namespaces or have it open.

    Others may have new namespaces by now, whose inodes have the same numbers.
    """
    found = set()
    wanted = set(inodes)
    for pid in procfs.all_pids():
        if pid != os.getpid() and procfs.environ(pid).get("CLUSTERKIT_RUN_DIR") != str(run):
            continue
        try:
            here = {Path(f"/proc/{pid}/ns/net").stat().st_ino}
        except OSError:
            continue
        here |= {int(link[5:-1]) for link in procfs.links(pid) if link.startswith("net:[")}
        found |= {pid} if here & wanted else set()
    return found


def opened(switch: int) -> set[int]:
    """All network namespaces that the switch has open: those of the tasks, and the hub."""
    return {int(link[5:-1]) for link in procfs.links(switch) if link.startswith("net:[")}


def test_nothing_outlives_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    words = [sys.executable, "-c", OWNER, str(tmp_path / "log")]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "CLUSTERKIT_RUN_DIR": str(tmp_path)}
    owner = subprocess.Popen(words, stdout=subprocess.PIPE, env=env)
    assert owner.stdout is not None
    try:
        told = json.loads(owner.stdout.readline())
        assert holders(told["inodes"], tmp_path) == {owner.pid, told["pid"]}
        inodes = opened(told["pid"])
        assert inodes >= set(told["inodes"])
        assert holders(inodes - set(told["inodes"]), tmp_path) <= {told["pid"]}
        assert procfs.environ(told["pid"])["CLUSTERKIT_TASK"] == "switch"
    finally:
        owner.kill()
        owner.wait(10)
        owner.stdout.close()
    wait_until(lambda: not holders(inodes, tmp_path), 5, "the end of the switch and its namespaces")
    wait_until(lambda: procfs.is_zombie(told["pid"]), 5, "the end of the switch")


def test_nothing_is_left_when_it_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterkit.network.virtual.END_WITHIN", 0.2)
    task, env = Task.parse("worker:0"), {"CLUSTERKIT_RUN_DIR": str(tmp_path)}
    network = VirtualNetwork(NetworkPlan([task], 1, disk=tmp_path), tmp_path / "log", env)
    assert holders({os.fstat(network.namespaces(task)[-1]).st_ino}, tmp_path) == {os.getpid(), network.pid}
    inodes = opened(network.pid)
    os.kill(network.pid, signal.SIGSTOP)  # it does not end by itself
    network.stop()
    wait_until(lambda: procfs.is_zombie(network.pid), 10, "the end of the switch")
    assert holders(inodes, tmp_path) == set()
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


@pytest.fixture
def nobodys() -> Iterator[Path]:
    """A directory of user nobody, or of the user who runs the tests."""
    place = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    yield place
    shutil.rmtree(place)


def as_nobody(place: Path, *words: str) -> list[str]:
    """A command that runs words without any rights, on a machine where every user can open TUN devices."""
    if os.geteuid() != 0:
        return list(words)
    node = place / "tun"
    prepare = f"mknod {node} c 10 200 && chmod 666 {node} && mount --bind {node} /dev/net/tun"
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--bounding-set=-all"]
    return ["unshare", "--mount", "sh", "-c", f'{prepare} && exec "$@"', "sh", *drop, *words]


def interpreter(place: Path) -> str:
    """A Python that a user without rights can run, and that can read clusterkit."""
    for python in (sys.executable, "/usr/bin/python3"):
        code = "import subprocess, sys, clusterkit.network.virtual; subprocess.check_call([sys.executable, '-c', ''])"
        words = as_nobody(place, python, "-c", code)
        tried = subprocess.run(words, capture_output=True, env={"PYTHONPATH": str(ROOT)}, cwd="/")
        (place / "tun").unlink(missing_ok=True)
        if tried.returncode == 0:
            return python
    pytest.skip(f"no interpreter can be run without rights: {tried.stderr.decode()[-300:]}")


def test_it_works_without_rights(nobodys: Path) -> None:
    words = as_nobody(nobodys, interpreter(nobodys), str(CHILDREN / "unprivileged_network.py"), str(nobodys))
    ended = subprocess.run(words, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}, cwd="/", timeout=40)
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout)
    assert seen == {
        "ping": "ping pong",
        "served": {"result": None},
        "namespaces": 3,
        "full": "ENOSPC",
        "healed": None,
        "client": [NOBODY if os.geteuid() == 0 else os.getuid(), ["healed", "old"]],
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take the device away")
def test_why_it_is_not_possible_is_told(nobodys: Path) -> None:
    code = "from clusterkit.network.virtual import why_not; print(why_not(True, False), why_not(False, True), sep='; ')"
    python = interpreter(nobodys)
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    denied = "mount -t tmpfs none /dev/net && mknod -m 600 /dev/net/tun c 10 200"
    missing = "mount -t tmpfs none /dev/net"
    for prepare, why in ((denied, "can't be opened: permission denied"), (missing, "can't be opened: no such file")):
        words = ["unshare", "--mount", "sh", "-c", f'{prepare} && exec "$@"', "sh", *drop, python, "-c", code]
        told = subprocess.run(words, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}, cwd="/", timeout=20)
        assert told.stdout.startswith(f"/dev/net/tun {why}"), told
        assert told.stdout.endswith("; None\n")
