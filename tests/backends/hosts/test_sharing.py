"""Whether hosts share the run's directories."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.backends.hosts.fitness import NotShared, SharedDirectories, seconds_until_seen


def soon(done: Callable[[], bool], within: float) -> bool:
    """Look a few times, whatever the time."""
    return any(done() for _ in range(5))


def test_a_shared_directory_is_recognized_and_nothing_stays_in_it(tmp_path: Path) -> None:
    """By an agent that sees the supervisor's file."""
    shared = SharedDirectories([tmp_path])
    assert seconds_until_seen(tmp_path, shared.token, soon) < 5
    shared.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    """As on a network file system."""
    shared = SharedDirectories([tmp_path / "..", tmp_path])
    [file] = tmp_path.iterdir()
    hidden = file.rename(tmp_path.parent / "hidden")
    looks = iter(range(5))

    def wait(done: Callable[[], bool], within: float) -> bool:
        for look in looks:
            if done():
                return True
            if look == 2:
                hidden.rename(file)
        return False

    assert seconds_until_seen(tmp_path, shared.token, wait) >= 0
    shared.clear()


def test_another_directory_of_the_same_name_is_not_shared(tmp_path: Path) -> None:
    """The sentence names it, and what to do."""
    with pytest.raises(NotShared, match=r"All hosts have to share this directory: choose another"):
        seconds_until_seen(tmp_path, "0" * 16, soon)
    with pytest.raises(NotShared, match="does not see in"):
        seconds_until_seen(tmp_path / "missing", "0" * 16, soon)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_directory_that_can_only_be_read_is_not_enough(tmp_path: Path) -> None:
    """Checkpoints are written from every host."""
    shared = SharedDirectories([tmp_path])
    tmp_path.chmod(0o500)
    with pytest.raises(NotShared, match="can't write to"):
        seconds_until_seen(tmp_path, shared.token, soon)
    tmp_path.chmod(0o700)
