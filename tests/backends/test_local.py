"""The local backend keeps the contract, with a fork server that is not ready yet too."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from clusterkit.backends.base import Backend
from clusterkit.backends.local.backend import LocalBackend
from clusterkit.backends.local.resources import preflight
from clusterkit.warm.fork_client import ForkServer, Launch
from clusterkit.warm.servable import Preload
from clusterkit.warm.starter import ForkServerSettings
from clusterkit.words import actions as ac
from clusterkit.words import events as ev
from tests.backends.contract import Contract
from tests.backends.stage import OTHER, WITHIN, WORKER, Stage

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]


class Cold(Stage):
    """Each attempt begins with a fresh interpreter."""

    def make(self) -> Backend:
        """The local backend without a fork server."""
        return LocalBackend(self.job, 1, self.inbox, self.view, ForkServerSettings())


class Warm(Stage):
    """Attempts are forked, once there is a fork server, which takes a moment."""

    def make(self) -> Backend:
        """The local backend with a fork server that imports nothing."""
        env = {**os.environ, "CLUSTERKIT_RUN_DIR": str(self.directory.path), "CLUSTERKIT_TASK": "fork-server"}
        launch = Launch(sys.executable, env, Preload(tensorflow=False), str(self.directory.path / "fork-server.log"))
        return LocalBackend(self.job, 1, self.inbox, self.view, ForkServerSettings(launch))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Until it is set, nobody learns that a fork server is ready."""
    opened, read = threading.Event(), ForkServer._read_report

    def late(server: ForkServer) -> Any:
        opened.wait(WITHIN)
        return read(server)

    monkeypatch.setattr(ForkServer, "_read_report", late)
    yield opened
    opened.set()  # whoever ends the server waits for its thread


def no_thread(thread: threading.Thread) -> None:
    """What Python raises where the limit of processes is reached."""
    raise RuntimeError("can't start new thread")


class TestCold(Contract):
    """Fresh interpreters."""

    stage_of = Cold
    preflight = staticmethod(preflight)

    def test_a_full_process_table(self, stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a new thread attempts are swept and start again all the same; a look at them says why it saw none."""
        run: Stage = stage("test $CLUSTERKIT_ATTEMPT = 1 || exec sleep 60; sleep 60 & exit 0")
        run.begin(WORKER)
        run.wait(ev.Exited)
        monkeypatch.setattr(threading.Thread, "start", no_thread)
        run.backend.do(ac.Sweep(WORKER, 1))
        assert run.wait(ev.Swept).left == 1
        run.backend.do(ac.Spawn(WORKER, 2, "failure"))
        run.wait(ev.Spawned, attempt=2)
        for look in (ev.Look.PACE, ev.Look.STALL):
            run.events.clear()
            run.backend.do(ac.Inspect(look))
            assert run.wait(ev.Inspected, None) == ev.Inspected({}, look)
            [said] = [event.what for event in run.events if isinstance(event, ev.Impaired)]
            assert said.startswith("The tasks can't be inspected: no thread can be started: Resource temporarily")

    def test_half_a_report_does_not_hide_the_next_attempts_first_one(self, stage: Any) -> None:
        """A task may die in the middle of a line, and what it left behind may write one after its exit."""
        ready = """'{"kind":"ready","attempt":2}\\n'"""
        half = """(sleep 0.1; printf '{"kind":"prog') & printf '{"kin'"""
        run: Stage = stage(
            f"{{ test $CLUSTERKIT_ATTEMPT = 2 && printf {ready} || {{ {half}; }}; }} >$CLUSTERKIT_PROGRESS"
        )
        run.begin(WORKER)
        run.wait(ev.Exited)
        run.wait(ev.Drained)
        run.backend.do(ac.Sweep(WORKER, 1))
        run.wait(ev.Swept)
        run.backend.do(ac.Spawn(WORKER, 2, "failure"))
        run.wait(ev.Ready, attempt=2)


class TestWarm(Contract):
    """A fork server."""

    stage_of = Warm
    preflight = staticmethod(preflight)

    def test_attempts_wait_for_the_fork_server_and_are_forked(self, stage: Any, gate: threading.Event) -> None:
        """The wait is over in the thread that does the work from the inbox."""
        run: Stage = stage("true")
        run.begin(WORKER, OTHER)
        assert not run.has(ev.Spawned)
        gate.set()
        assert [run.wait(ev.Spawned, task).forked for task in (WORKER, OTHER)] == [True, True]
        assert [event.minor for event in run.events if isinstance(event, ev.Noted)] == [True]

    def test_a_signal_to_an_attempt_that_waits_prevents_it(self, stage: Any, gate: threading.Event) -> None:
        """No process is made for it; the other one starts."""
        run: Stage = stage("sleep 60")
        run.begin(WORKER, OTHER)
        run.backend.do(ac.Signal(WORKER, 1, signal.SIGTERM))
        gate.set()
        assert run.wait(ev.SpawnFailed).error == ev.NEVER_STARTED
        run.wait(ev.Spawned, OTHER)
        assert not any(isinstance(event, ev.Spawned) and event.task == WORKER for event in run.events)
