"""A pytest plugin: the world in which this project's tests run, and the janitor beside each session."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from secrets import token_hex
from types import FrameType
from typing import Any

import pytest

from tests import environment, janitor

SHORT = 32  # bytes: below a longer temporary directory, sockets would not be where most people have them
OVERTIME = 60.0  # seconds beyond --session-timeout, after which no worker begins another test


class Watched:
    """This process, as it shows itself to the janitor."""

    def __init__(self, name: str, leads: bool, mark: str, place: Path) -> None:
        self._told = {"pid": os.getpid(), "name": name, "leads": leads, "mark": f"{mark}/{os.getpid()}/"}
        self._path = place / janitor.RUNNING / f"{os.getpid()}.json"
        os.environ[janitor.VARIABLE] = str(self._told["mark"])
        self._output = os.dup(2)  # whatever a test that hangs has captured
        faulthandler.register(janitor.DUMP, file=self._output, all_threads=True)
        self.does(None)

    def does(self, test: str | None, limit: float = 0.0) -> None:
        """Say what it is about to do, and for how many seconds it may; 0: without a limit."""
        now = time.monotonic()
        self._path.write_text(
            json.dumps({**self._told, "test": test, "since": now, "until": now + limit if limit else None})
        )

    def leave(self) -> None:
        """It is going to end in its own way."""
        self._path.unlink(missing_ok=True)
        faulthandler.unregister(janitor.DUMP)
        os.close(self._output)


class Lead:
    """What the process that leads a session begins and ends: the session's place, its mark and its janitor."""

    def __init__(self, seconds: float) -> None:
        given = tempfile.gettempdir()
        above = given if len(os.fsencode(given)) <= SHORT else "/tmp"
        self.place = Path(tempfile.mkdtemp(prefix="ck-", dir=above))
        self.place.chmod(0o711)  # some tests are somebody else in there
        for name in ("home", janitor.RUNNING):
            (self.place / name).mkdir()
        # pytest's own directories outlive the session, for whoever looks into a failure.
        os.environ["PYTEST_DEBUG_TEMPROOT"] = above
        self.mark = os.environ.get(janitor.VARIABLE, "") + token_hex(8)
        line, self._held = os.pipe()
        self._gone, gone = os.pipe()
        words = [sys.executable, "-I", "-S", janitor.__file__, str(os.getpid()), str(line), self.mark, str(self.place)]
        subprocess.run([*words, str(seconds)], env={}, cwd="/", pass_fds=(line, gone), check=True)
        os.close(line)
        os.close(gone)
        signal.signal(janitor.OVER, _end_session)

    def end(self) -> None:
        """Wait until the janitor has ended all that is left."""
        os.write(self._held, b"!")
        os.read(self._gone, 1)
        os.close(self._held)
        os.close(self._gone)


LEAD = pytest.StashKey[Lead]()
WATCHED = pytest.StashKey[Watched]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Make the tests' world, before anything is started in it."""
    given: dict[str, Any] | None = getattr(config, "workerinput", None)
    if given is None:
        environment.open_standard_descriptors()
        limit = seconds_of(config, "session_timeout")
        lead = config.stash[LEAD] = Lead(limit and limit + OVERTIME)
        given = {"workerid": "pytest", "mark": lead.mark, "place": str(lead.place), "ignored": ()}
    environment.settle(Path(given["place"]), given["ignored"])
    tempfile.tempdir = None  # it is looked up anew
    config.stash[WATCHED] = Watched(given["workerid"], LEAD in config.stash, given["mark"], Path(given["place"]))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End what is left."""
    if (watched := config.stash.get(WATCHED, None)) is not None:
        watched.leave()
    if (lead := config.stash.get(LEAD, None)) is not None:
        lead.end()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a worker its part in the session."""
    lead = node.config.stash[LEAD]
    node.workerinput |= {"mark": lead.mark, "place": str(lead.place), "ignored": environment.ignored_signals()}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For `--dist loadfile`; pytest-xdist need not be there."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.scheduling import Files

    return Files(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Have the janitor know which test it is, and its limit."""
    watched = item.config.stash[WATCHED]
    watched.does(item.nodeid, limit_of(item))
    try:
        return (yield)
    finally:
        watched.does(None)


def pytest_enter_pdb(config: pytest.Config) -> None:
    """Who debugs has all the time that it takes."""
    config.stash[WATCHED].does(None)


def limit_of(item: pytest.Item) -> float:
    """The seconds in which pytest-timeout fails the test; 0 where it does not."""
    marker = item.get_closest_marker("timeout")
    given = marker and (marker.args[0] if marker.args else marker.kwargs.get("timeout"))
    return seconds_of(item.config, "timeout") if given is None else float(given)


def seconds_of(config: pytest.Config, name: str) -> float:
    """A setting of pytest-timeout's, from the command line or the configuration file."""
    given = config.getoption(name, None)
    return float((config.getini(name) or 0) if given is None else given)


def _end_session(_number: int, _frame: FrameType | None) -> None:
    pytest.exit("The session has taken too long.", returncode=1)
