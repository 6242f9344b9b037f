"""The mark of a lost run, CLUSTERKIT_RUN_DIR, in the environment of what is none of its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clusterkit.store.cleaning import find_leaks, find_strays, reap_strays
from clusterkit.store.store import RunStore
from clusterkit.system import procfs
from tests.environment import clean_environment
from tests.support import CHILDREN, Command, Up, wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]


@pytest.fixture
def lost(home: Path) -> Path:
    """The directory of a run that no supervisor has."""
    run = home / "runs" / "lost"
    run.mkdir(parents=True)
    (run / "lock").touch()
    return run


@pytest.fixture
def stray(lost: Path) -> Iterator[Callable[[Path], subprocess.Popen[bytes]]]:
    """Start a process of the lost run, whose directory it knows by a path."""
    started: list[subprocess.Popen[bytes]] = []

    def start(path: Path) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "60"], env={"CLUSTERKIT_RUN_DIR": str(path)}))
        wait_until(lambda: procfs.argv_of(started[-1].pid)[0] == "sleep", 10, "it runs")
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait(10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "{ck} up --run-id next tests/children/roles.py --steps 3",
        "{ck} up -d --run-id next tests/children/says.py 2 && {ck} wait next",
        "{ck} reap",
        "{ck} rm lost",
    ],
)
def test_a_command_spares_whoever_started_it(home: Path, lost: Path, command: str) -> None:
    """A terminal that was opened from a task has the mark, and so has what else was started in the terminal."""
    words = command.format(ck=f"{sys.executable} -m clusterkit")
    script = f"sleep 60 & {words} || exit 9; kill $! && echo lives"
    env = {**clean_environment(home), "CLUSTERKIT_RUN_DIR": str(lost)}
    shell = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, timeout=50)
    assert (shell.returncode, shell.stdout.splitlines()[-1:]) == (0, ["lives"]), shell.stderr


@pytest.mark.slow
def test_a_run_that_was_started_with_the_mark_of_another_is_no_stray_of_that(
    up: Callable[..., Up], clusterkit: Callable[..., Command], lost: Path, tmp_path: Path
) -> None:
    """As a batch job that was submitted from within a task."""
    run = up(
        "--run-id",
        "later",
        "--workers",
        "2",
        CHILDREN / "together.py",
        tmp_path / "go",
        env={"CLUSTERKIT_RUN_DIR": str(lost)},
    )
    run.wait_for("Ready", deadline=20, count=2)
    reap = clusterkit("reap")
    assert reap.wait(20) == 0
    assert reap.output == "Nothing was left behind.\n"
    (tmp_path / "go").touch()
    assert run.wait(20) == 0


def test_strays_are_known_whatever_path_leads_to_their_state_directory(
    home: Path, stray: Callable[[Path], subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the home directory is a symlink for some."""
    (link := home.with_name("link")).symlink_to(home)
    one, other = stray(link / "runs" / "lost"), stray(home / "runs" / "lost")
    for seen_as in (home, link):
        monkeypatch.setenv("CLUSTERKIT_HOME", str(seen_as))
        assert sorted(find_strays()["lost"]) == sorted([one.pid, other.pid])
        assert len(find_leaks(RunStore(), "lost").processes) == 2


def test_those_who_are_spared_are_not_strays(
    home: Path, lost: Path, stray: Callable[[Path], subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that a warm server begins is no descendant of the command that started it."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(home))
    spared, killed = stray(lost), stray(lost)
    assert reap_strays(spared=[spared.pid]) == {"lost": 1}
    assert (spared.poll(), killed.wait(10)) == (None, -9)


def test_what_is_left_of_a_run_that_this_process_has_taken_over_is_stray(
    home: Path, lost: Path, stray: Callable[[Path], subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the run is live again; another run's lock says nothing about that."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(home))
    left = stray(lost)
    lock = RunStore().run("lost").lock()
    assert (find_strays(), find_strays(own="other")) == ({}, {})
    assert find_strays(own="lost") == {"lost": [left.pid]}
    os.close(lock)
