"""Strangers around a run on hosts: nobody gets in without its key, and no secret of it can be read anywhere."""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clusterkit.backends.link.certificate import write_certificate
from tests.backends.link import leaks
from tests.backends.link.knocking import who_let_in
from tests.support import CHILDREN, Up, processes_of

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(90)]
Start = Callable[..., Up]
TOKEN = "hunter2-a-password-of-the-user"
JOB = ("--workers", "2", "--ps", "1", "--hosts", "2", "--env", "API_TOKEN", CHILDREN / "mimic.py", "--steps", "100000")


@pytest.fixture
def run(up: Start) -> Iterator[Up]:
    """A run on two stand-ins for hosts, whose tasks get a password; it has to end well, whatever was tried."""
    started = up(*JOB, env={"API_TOKEN": TOKEN})
    started.wait_for("Checkpointed")
    yield started
    ends_well(started)


def ends_well(run: Up) -> None:
    """It is not over by itself, no host was cut off, and Ctrl-C ends it as usual."""
    step = max(event["step"] for event in run.events("Progressed"))
    run.wait_for_step(step + 1)
    run.signal(2)
    assert run.wait(20) == 130, run.output
    assert not [event for event in run.events() if event["event"] in ("HostCut", "HostLost", "Crashed", "Warned")]


def test_every_port_of_a_run_turns_strangers_away(run: Up, home: Path, tmp_path: Path) -> None:
    """There is one, the supervisor's; the others are the tasks' own. Neither garbage nor an old run's key opens it."""
    write_certificate(old := tmp_path / "old.pem", "r-0")
    [port] = leaks.ports(leaks.own_processes(processes_of(home)))
    assert who_let_in("127.0.0.1", port, old) == []


def test_no_command_line_environment_or_file_has_the_key(run: Up, home: Path) -> None:
    """But for the one file, which is for its owner only."""
    pem = run.run / "agents.pem"
    key, processes = leaks.key_in(pem), processes_of(home)
    assert len(processes) >= 7  # a guardian and a supervisor, as many for each agent, and tasks
    assert stat.S_IMODE(pem.stat().st_mode) == 0o600
    assert leaks.holding(leaks.arguments(processes), key) == []
    assert leaks.holding(leaks.environments(processes), key) == []
    assert leaks.holding(leaks.files(home, *spools(run), but=[pem]), key) == []


def test_the_users_secrets_are_in_no_command_line_and_no_file(run: Up, home: Path) -> None:
    """They are in the environment of the tasks, which is what they were given for."""
    processes = processes_of(home)
    assert leaks.holding(leaks.arguments(processes), [TOKEN.encode()]) == []
    assert leaks.holding(leaks.files(home, *spools(run)), [TOKEN.encode()]) == []
    assert leaks.holding(leaks.environments(processes), [TOKEN.encode()])


@pytest.mark.parametrize("mask", [0o000, 0o077], ids=["umask 000", "umask 077"])
def test_nothing_of_a_run_is_open_to_other_users(up: Start, home: Path, mask: int) -> None:
    """Whatever the user's mask: no file and no socket, in the run's directory and in the agents' spools."""
    home.mkdir(mode=0o700)  # clusterkit makes it so; one that others can write to is refused
    with leaks.umask(mask):
        run = up(*JOB, env={"API_TOKEN": TOKEN})
    run.wait_for("Checkpointed")
    assert len(spools(run)) == 2
    assert leaks.open_to_others(run.run, *spools(run)) == []
    assert stat.S_IMODE((run.run / "agents.pem").stat().st_mode) == 0o600
    ends_well(run)
    assert leaks.open_to_others(run.run) == []


def spools(run: Up) -> list[Path]:
    """Where the agents of this run keep what they have to send; other tests have agents at the same time."""
    return [own.parent for own in Path(tempfile.gettempdir()).glob(f"clusterkit-agent-*/{run.run.name}")]
