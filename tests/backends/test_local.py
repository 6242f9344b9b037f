"""The local backend keeps the contract, with a fork server that is not ready yet too."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import pytest

from clusterkit.backends.base import Backend
from clusterkit.backends.local.backend import LocalBackend
from clusterkit.warm.launching import Launch
from clusterkit.warm.servable import Preload
from clusterkit.warm.starter import Warmth
from clusterkit.words import actions as ac
from clusterkit.words import events as ev
from tests.backends.contract import OTHER, WORKER, Contract, Stage

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]


class Cold(Stage):
    """Each attempt begins with a fresh interpreter."""

    def make(self) -> Backend:
        """The local backend without a fork server."""
        return LocalBackend(self.job, 1, self.inbox, self.view, Warmth())


class Warm(Stage):
    """Attempts are forked, once there is a fork server, which takes a moment."""

    def make(self) -> Backend:
        """The local backend with a fork server that imports nothing."""
        env = {**os.environ, "CLUSTERKIT_RUN_DIR": str(self.directory.path), "CLUSTERKIT_TASK": "fork-server"}
        launch = Launch(sys.executable, env, Preload(tensorflow=False), str(self.directory.path / "fork-server.log"))
        return LocalBackend(self.job, 1, self.inbox, self.view, Warmth(launch))


class TestCold(Contract):
    """Fresh interpreters."""

    stage_of = Cold


class TestWarm(Contract):
    """A fork server."""

    stage_of = Warm

    def test_attempts_wait_for_the_fork_server_and_are_forked(self, stage: Any) -> None:
        """The wait is over in the thread that does the work from the inbox."""
        run: Stage = stage("true")
        run.begin(WORKER, OTHER)
        assert not any(isinstance(event, ev.Spawned) for event in run.events)
        assert [run.wait(ev.Spawned, task).forked for task in (WORKER, OTHER)] == [True, True]
        assert [event.minor for event in run.events if isinstance(event, ev.Noted)] == [True]

    def test_a_signal_to_an_attempt_that_waits_prevents_it(self, stage: Any) -> None:
        """No process is made for it; the other one starts."""
        run: Stage = stage("sleep 60")
        run.begin(WORKER, OTHER)
        run.backend.do(ac.Signal(WORKER, 1, signal.SIGTERM))
        assert run.wait(ev.SpawnFailed).error == ev.NEVER_STARTED
        run.wait(ev.Spawned, OTHER)
        assert not any(isinstance(event, ev.Spawned) and event.task == WORKER for event in run.events)
