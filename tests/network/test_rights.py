"""A virtual network for users without rights, and the message if it is not available."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit.network.virtual import why_not
from tests.support import CHILDREN, ROOT

WHY_NOT = why_not(network=True, disk=True)
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(60),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else"),
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no virtual network here: {WHY_NOT}"),
]
NOBODY = 65534
OPEN = "mknod {place}/tun c 10 200 && chmod 666 {place}/tun && mount --bind {place}/tun /dev/net/tun"
MISSING = "mount -t tmpfs none /dev/net"
DROP = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory of user nobody."""
    path = Path(tempfile.mkdtemp())
    shutil.copy(CHILDREN / "peers.py", path)
    shutil.chown(path, NOBODY, NOBODY)
    yield path
    shutil.rmtree(path)


def call(place: Path, first: str, drop: tuple[str, ...], *words: str) -> subprocess.CompletedProcess[str]:
    """Run `clusterkit` as another user, in namespaces that root has prepared."""
    libraries = [str(ROOT), *dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib"))]
    env = {**os.environ, "CLUSTERKIT_HOME": str(place / "home"), "PYTHONPATH": os.pathsep.join(libraries)}
    same = "/usr/bin/python{}.{}".format(*sys.version_info)
    for python in (sys.executable, same):
        said = f'{first.format(place=place)} && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", said, "sh", *drop, python]
        probe = [*command, "-c", f"import clusterkit.cli.commands.up, os; os.execv({python!r}, [{python!r}, '-c', ''])"]
        tried = subprocess.run(probe, capture_output=True, text=True, env=env, cwd=place, timeout=20)
        (place / "tun").unlink(missing_ok=True)
        if tried.returncode == 0:
            whole = [*command, "-m", "clusterkit", *words]
            return subprocess.run(whole, capture_output=True, text=True, env=env, cwd=place, timeout=40)
    pytest.skip(f"nobody can run this interpreter: {tried.stderr[-300:]}")


@pytest.mark.parametrize("start", [("--start", "cold"), ("--preload", "json")], ids=["cold", "forked"])
@pytest.mark.parametrize("bounded", [False, True])
def test_a_run_works_without_rights(place: Path, start: tuple[str, str], bounded: bool) -> None:
    """In a user namespace, in which the task keeps its user and gains no rights."""
    drop = (*DROP, "--bounding-set=-all") if bounded else DROP
    words = ("--network", "virtual", "--fault", "disk-full @ 1000s", *start, "peers.py")
    ran = call(place, OPEN, drop, "up", "--workers", "2", *words)
    assert ran.returncode == 3, ran.stdout + ran.stderr  # the disk never got full
    (log,) = place.glob("home/runs/*/tasks/worker:0/attempt-1.log")
    said = json.loads(log.read_text())
    assert list(said["reached"]) == ["10.77.0.1:2222", "10.77.0.2:2222"]
    assert set(said["devices"]) == {"lo", "tun0", "eth0"}
    assert said["ids"] == [[NOBODY] * 3] * 2
    assert said["dies_with_parent"] == 9
    assert said["cwd"] == str(place)
    here = {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("user", "mnt", "net")}
    assert not here.items() & said["namespaces"].items()
    rights = {name: int(value, 16) for name, value in (line.split(":") for line in said["rights"])}
    assert [rights[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0, 0, 0, 0]
    assert (rights["CapBnd"] == 0) is bounded


def test_a_missing_network_is_reported_before_anything_starts(place: Path) -> None:
    """In one sentence, with the exit code for a job that can't be run."""
    ran = call(place, MISSING, (), "up", "--workers", "2", "--network", "virtual", "peers.py")
    assert ran.returncode == 2
    assert "--network virtual is not supported here: /dev/net/tun can't be opened: no such file" in ran.stderr
    assert not (place / "home" / "runs").exists()


def test_a_capture_file_that_can_not_be_written_is_reported(place: Path) -> None:
    """Before anything starts."""
    ran = call(place, "true", (), "up", "--workers", "2", "--network", "virtual", "--pcap", "no/where", "peers.py")
    assert ran.returncode == 2
    assert "--pcap no/where can't be written" in ran.stderr
