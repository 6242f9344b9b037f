"""A disk that is full for the tasks alone."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit.network.virtual import NetworkError, NetworkPlan, VirtualNetwork, why_not
from clusterkit.words.model import Task
from tests.guests import Guest

TASK = Task.parse("worker:0")
WHY_NOT = why_not(network=False, disk=True)
WHY_NO_NETWORK = why_not(network=True, disk=True)
pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(60),
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no full disk here: {WHY_NOT}"),
]
WRITES = (
    "open('new', 'w')",
    "os.mkdir('directory')",
    "os.symlink('old', 'link')",
    "open('old', 'a').write('more')",
    "open('old', 'r+').write('x')",
    "open('old', 'w').write('x')",
    "open('below/new', 'w')",
    "open('below/old', 'a').write('more')",
    "os.rename('old', 'other')",
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with a file, whose name has every character that is special in mount options."""
    place = tmp_path / "da,ta:1=2 \\é"
    (place / "below").mkdir(parents=True)
    (place / "old").write_text("old")
    (place / "below" / "old").write_text("old below")
    return place


@pytest.fixture
def disk(tmp_path: Path, data: Path) -> Iterator[VirtualNetwork]:
    """A disk that can be filled, without a virtual network."""
    made = VirtualNetwork(NetworkPlan([TASK], 1, network=False, disk=data), tmp_path / "log", {})
    yield made
    made.stop()


@pytest.fixture
def guest(disk: VirtualNetwork, data: Path) -> Iterator[Guest]:
    """A process that sees the disk, and has a file open there."""
    guest = Guest(disk.namespaces(TASK))
    guest.does(f"os.chdir({os.fspath(data)!r}); before = open('old', 'a')")
    yield guest
    guest.end()


def contents(place: Path) -> dict[str, str]:
    """Every file below a directory."""
    return {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}


def enters(guest: Guest, data: Path) -> None:
    """Enter the directory as it is mounted now."""
    guest.does(f"os.chdir({os.fspath(data)!r})")


def test_nothing_can_be_written_and_all_be_read(disk: VirtualNetwork, guest: Guest, data: Path) -> None:
    assert disk.addresses == {}
    assert disk.endpoints == {}
    before = contents(data)
    disk.fill_disk(4)
    enters(guest, data)
    for code in WRITES:
        assert guest.tries(code).get("errno") == errno.ENOSPC, code
    assert guest.does("result = sorted(os.listdir('.'))") == ["below", "old"]
    assert guest.does("result = open('below/old').read()") == "old below"
    assert guest.does("result = os.statvfs('.').f_bavail") == 0
    assert contents(data) == before
    disk.heal(4)
    enters(guest, data)
    guest.does("open('new', 'w').write('new')")
    assert contents(data) == {**before, "new": "new"}


def test_what_is_open_is_as_it_was(disk: VirtualNetwork, guest: Guest, data: Path) -> None:
    disk.fill_disk(4)
    guest.does("before.write(' and more'); before.flush()")
    assert (data / "old").read_text() == "old and more"


def test_others_can_write_there(disk: VirtualNetwork, guest: Guest, data: Path) -> None:
    disk.fill_disk(4)
    (data / "by the host").write_text("x")
    enters(guest, data)
    assert guest.tries("open('by the guest', 'w')").get("errno") == errno.ENOSPC
    assert not list(data.parent.glob("full-disk-*/*"))


def test_two_faults_are_healed_one_by_one(disk: VirtualNetwork, guest: Guest, data: Path) -> None:
    disk.fill_disk(1)
    disk.fill_disk(2)
    disk.heal(1)
    enters(guest, data)
    assert guest.tries("open('new', 'w')").get("errno") == errno.ENOSPC
    disk.heal(2)
    disk.heal(2)
    enters(guest, data)
    guest.does("open('new', 'w')")
    disk.fill_disk(3)
    enters(guest, data)
    assert guest.tries("open('newer', 'w')").get("errno") == errno.ENOSPC


def test_a_directory_that_is_not_there_is_told(disk: VirtualNetwork, data: Path) -> None:
    data.rename(data.with_name("elsewhere"))
    with pytest.raises(NetworkError, match="can't be opened: no such file or directory"):
        disk.fill_disk(1)
    data.with_name("elsewhere").rename(data)
    disk.fill_disk(1)


@pytest.mark.skipif(WHY_NO_NETWORK is not None, reason=f"no virtual network here: {WHY_NO_NETWORK}")
def test_the_disk_and_the_network_go_together(tmp_path: Path, data: Path) -> None:
    network = VirtualNetwork(NetworkPlan([TASK], 1, disk=data), tmp_path / "log", {})
    guest = Guest(network.namespaces(TASK))
    try:
        network.fill_disk(1)
        assert guest.tries(f"open({os.fspath(data / 'new')!r}, 'w')").get("errno") == errno.ENOSPC
        assert guest.does(f"s = socket.create_server(({network.addresses[TASK]!r}, 2222)); result = 1; s.close()") == 1
    finally:
        guest.end()
        network.stop()
