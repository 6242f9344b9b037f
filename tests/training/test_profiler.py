"""Profiles inside a task: when they begin and end, and what is answered; a recorder plays TensorFlow's profiler."""

from __future__ import annotations

import json
import os
import queue
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.training import profiler, progress
from clusterkit.training.profiler import Profile


class Recorder:
    """Replaces `tf.profiler.experimental`: writes an empty profile, or raises `error`."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.error: Exception | None = None

    def start(self, logdir: str) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append("start")
        self._logdir = Path(logdir)

    def stop(self) -> None:
        self.calls.append("stop")
        file = self._logdir / "plugins/profile/now/vm.xplane.pb"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


class Supervisor:
    """The other ends of the task's pipes."""

    def __init__(self, directory: Path) -> None:
        os.mkfifo(directory / "progress")
        self.reports = os.open(directory / "progress", os.O_RDONLY | os.O_NONBLOCK)
        self.run = directory

    def answers(self) -> list[dict[str, Any]]:
        """What was said of profiles since the last call."""
        try:
            lines = os.read(self.reports, 1 << 16).splitlines()
        except BlockingIOError:
            return []
        return [told for told in map(json.loads, lines) if told["kind"] == "profiled"]

    @property
    def profile(self) -> str:
        """Where the recorder leaves it."""
        return str(self.run / "tensorboard/worker:0/plugins/profile/now/vm.xplane.pb")


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """A run's directory with this process as its task."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setenv("CLUSTERKIT_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("CLUSTERKIT_PROGRESS", str(tmp_path / "progress"))
    monkeypatch.setenv("CLUSTERKIT_ATTEMPT", "1")
    monkeypatch.setattr(progress, "_channel", None)
    made = Supervisor(tmp_path)
    yield made
    opened = progress.channel()
    assert opened._fd is not None
    os.close(opened._fd)
    os.close(made.reports)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """A stand-in for TensorFlow with a profiler only."""
    made = Recorder()
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(profiler=SimpleNamespace(experimental=made)))
    return made


def test_a_profile_is_of_the_steps_after_the_next_report(supervisor: Supervisor, recorder: Recorder) -> None:
    """It starts and stops between two steps; afterwards the plain channel is back."""
    progress.report(10)
    plain = progress.channel()
    Profile(7, steps=3, seconds=60).begin()
    assert recorder.calls == []
    for step in (11, 12, 13):
        progress.report(step, loss=0.5)
    assert recorder.calls == ["start"]
    progress.report(15)  # more than one step at once
    assert recorder.calls == ["start", "stop"]
    assert supervisor.answers() == [
        {"kind": "profiled", "attempt": 1, "request": 7, "path": supervisor.profile, "steps": 4, "why": ""}
    ]
    assert progress.channel() is plain


def test_a_servers_profile_lasts_until_it_is_ended(supervisor: Supervisor, recorder: Recorder) -> None:
    """A server reports no steps; ending its profile twice sends one answer."""
    profile = Profile(7, steps=None, seconds=60)
    profile.begin()
    assert recorder.calls == ["start"]
    profile.end()
    profile.end()
    assert recorder.calls == ["start", "stop"]
    (answer,) = supervisor.answers()
    assert (answer["path"], answer["steps"]) == (supervisor.profile, None)


def test_when_the_time_is_over_the_steps_so_far_have_to_do(supervisor: Supervisor, recorder: Recorder) -> None:
    """Without any step there is no profile, and a later report does not start one."""
    for number, steps in enumerate(([], [1], [1, 2, 3])):
        profile = Profile(number, steps=5, seconds=30)
        profile.begin()
        for step in steps:
            progress.report(step)
        profile.end("it reported no step within 30 s")
        progress.report(100)
    told = [(one["path"], one["steps"], one["why"]) for one in supervisor.answers()]
    assert told == [
        (None, None, "it reported no step within 30 s"),
        (supervisor.profile, 0, ""),
        (supervisor.profile, 2, ""),
    ]
    assert recorder.calls == ["start", "stop"] * 2


def test_why_there_is_no_profile(supervisor: Supervisor, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is profiling itself, or has not imported TensorFlow; the request does not disturb it."""
    recorder.error = RuntimeError("Another profiler is running.\nsecond line")
    Profile(1, steps=1, seconds=30).begin()
    progress.report(1)
    monkeypatch.delitem(sys.modules, "tensorflow")
    Profile(2, steps=None, seconds=30).begin()
    whys = [one["why"] for one in supervisor.answers()]
    assert whys == ["Another profiler is running.", "it has not imported TensorFlow"]
    progress.report(2)
    assert supervisor.answers() == []


def test_a_window_is_over_in_time(supervisor: Supervisor, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that reads requests ends the profile at its time limit."""
    waits = queue.SimpleQueue[float | None]()
    pipe, writer = os.pipe()
    clock = SimpleNamespace(monotonic=lambda: 1000.0)
    monkeypatch.setattr("clusterkit.training.profiler.time", clock)

    def select(reading: list[int], *_: object) -> tuple[list[int], list[int], list[int]]:
        timeout = _[-1]
        assert timeout is None or isinstance(timeout, float)
        waits.put(timeout)
        if timeout is None and waits.qsize() > 1:
            raise SystemExit
        return (reading if timeout is None else []), [], []

    monkeypatch.setattr("clusterkit.training.profiler.select.select", select)
    os.write(writer, b'{"do": "profile", "request": 3, "steps": null, "seconds": 60}\n')
    with pytest.raises(SystemExit):
        profiler._serve(pipe)
    assert [waits.get() for _ in range(3)] == [None, 60.0, None]
    assert recorder.calls == ["start", "stop"]
    assert len(supervisor.answers()) == 1
    os.close(pipe)
    os.close(writer)
