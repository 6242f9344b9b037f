"""Workers meet where the chief's callbacks write, with a stand-in for TensorFlow's coordination service."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import announcements
from clusterkit.task.patches.announcements import Announcements
from tests.support import load

CONFIG = '{{"cluster": {{"worker": ["a:1", "b:1"]}}, "task": {{"type": "worker", "index": {}}}}}'


class Deadline(Exception):
    """TensorFlow's DeadlineExceededError."""


class Exists(Exception):
    """TensorFlow's AlreadyExistsError."""


class Service:
    """Keys, the requests for them, and what happens while a request waits."""

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}
        self.waits: list[str] = []
        self.meanwhile: Any = lambda: None
        self.now = 0.0

    def set_config_key_value(self, key: str, value: str) -> None:
        if key in self.keys:
            raise Exists
        self.keys[key] = value

    def get_config_key_value(self, key: str, milliseconds: int) -> str:
        if key not in self.keys:
            self.waits.append(key)
            self.now += milliseconds / 1000
            self.meanwhile()
        if key not in self.keys:
            raise Deadline
        return self.keys[key]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    """The service of a cluster, and the part of TensorFlow that is used."""
    made = Service()
    errors = SimpleNamespace(DeadlineExceededError=Deadline, AlreadyExistsError=Exists)
    files = SimpleNamespace(exists=lambda path: path != "no backup")
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(errors=errors, io=SimpleNamespace(gfile=files)))
    monkeypatch.setitem(sys.modules, "tensorflow.python.eager.context", SimpleNamespace(context=lambda: made))
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    return made


def callback() -> Any:
    """A class like Keras's callbacks."""

    class Callback:
        def __init__(self, place: str) -> None:
            self.place, self.model, self.done = place, SimpleNamespace(), list[str]()

        def set_model(self, model: Any) -> None:
            self.model = model

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.epoch = epoch

        def save(self, fails: bool = False) -> None:
            if fails:
                raise OSError("disk full")
            self.done.append("save")

        def on_train_end(self, logs: Any = None) -> None:
            self.done.append("end")

    return Callback


def model(several: bool = True) -> Any:
    """A model under a strategy of several workers."""
    return SimpleNamespace(
        distribute_strategy=SimpleNamespace(extended=SimpleNamespace(_in_multi_worker_mode=lambda: several))
    )


class Pair:
    """The callbacks of the chief, worker:0, and of worker:1. Each is used after `chief()` or `other()`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._states = Announcements(), Announcements()
        self._kinds = callback(), callback()
        for kind, leads in zip(self._kinds, (True, False), strict=True):
            announcements.meet(kind, "place", ("save", "on_train_end"), leads, load)

    def make(self, index: int, place: str = "best.keras", several: bool = True) -> Any:
        self.turn(index)
        made = self._kinds[index](place)
        made.set_model(model(several))
        return made

    def turn(self, index: int) -> None:
        """Run as this worker from now on."""
        self._monkeypatch.setattr(announcements, "announcements", self._states[index])
        self._monkeypatch.setenv("TF_CONFIG", CONFIG.format(index))


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch, service: Service) -> Pair:
    """Two workers."""
    return Pair(monkeypatch)


def test_the_chief_saves_when_the_other_worker_has_come_to_the_save(pair: Pair, service: Service) -> None:
    """Which returns when the chief has saved."""
    chief, other = pair.make(0), pair.make(1)
    events: list[str] = []

    def come() -> None:
        if service.waits[-1].endswith("/worker:1"):  # the chief waits
            events.append("chief waits")
            assert chief.done == []
            if len(events) == 3:
                pair.turn(1)
                other.save()
                pair.turn(0)
        else:
            assert (chief.done, other.done) == ([], ["save"])
            service.keys[service.waits[-1]] = "1"  # as the chief's save goes on in its own process

    service.meanwhile = come
    pair.turn(0)
    chief.save()
    assert (chief.done, other.done, len(events)) == (["save"], ["save"], 3)


def test_workers_that_are_at_the_same_call_do_not_wait(pair: Pair, service: Service) -> None:
    """Calls are counted for each callback."""
    chief, other = pair.make(0), pair.make(1)
    for number in (1, 2):
        service.keys[f"{other._callback_key}/save/{number}/worker:1"] = "1"
        pair.turn(0)
        chief.save()
        pair.turn(1)
        other.save()
    assert service.waits == []


def test_a_worker_does_not_wait_for_one_without_the_callback(pair: Pair, service: Service) -> None:
    """Nor for one that writes another file."""
    chief, other = pair.make(0, "chief.keras"), pair.make(1, "other.keras")
    other.save()
    other.on_epoch_begin(0)
    other.on_train_end()
    pair.turn(0)
    chief.on_epoch_begin(0)
    chief.save()
    chief.on_train_end()
    assert service.waits == []


def test_models_of_one_worker_have_nothing_to_do_with_it(pair: Pair, service: Service) -> None:
    """Each worker may train one for itself, for as long as it likes."""
    pair.make(0, several=False).save()
    pair.make(1, several=False).save()
    assert (service.keys, service.waits) == ({}, [])


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (0, "Callback of worker:1 has not come to best.keras within 600 s. worker:0 no longer waits for it."),
        (1, "Callback of the chief has not come to best.keras within 600 s. worker:1 no longer waits for it."),
    ],
)
def test_a_worker_that_does_not_come_is_not_awaited_for_ever(
    pair: Pair, service: Service, capsys: pytest.CaptureFixture[str], index: int, said: str
) -> None:
    """A notice says so, once."""
    pair.make(1 - index)
    made = pair.make(index)
    made.save()
    assert made.done == ["save"]
    assert announcements.PATIENCE <= service.now < announcements.PATIENCE + 1
    assert capsys.readouterr().err == f"clusterkit: {said}\n"
    made.save()
    assert service.now < announcements.PATIENCE + 1


def test_a_save_that_failed_is_not_awaited(pair: Pair, service: Service) -> None:
    """The chief's program may handle the exception."""
    chief = pair.make(0)
    with pytest.raises(OSError, match="disk"):
        chief.save(fails=True)
    pair.make(1).save()
    assert service.waits == []


def test_nothing_is_awaited_once_a_worker_has_failed(
    pair: Pair, service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """The service answers with another error, which the next step raises."""
    pair.make(0)
    other = pair.make(1)

    def fail() -> None:
        raise RuntimeError

    service.meanwhile = fail
    other.save()
    assert (len(service.waits), capsys.readouterr().err) == (1, "")


def test_an_older_tensorflow_has_no_timeout_for_a_request(
    pair: Pair, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request then waits in a thread."""
    asked = []
    chief, other = pair.make(0), pair.make(1)
    service.keys[f"{other._callback_key}/save/1/worker:1"] = "1"
    monkeypatch.setattr(service, "get_config_key_value", lambda key: asked.append(service.keys[key]))
    pair.turn(0)
    chief.save()
    pair.turn(1)
    other.save()
    assert asked == ["1", "1"]
    other.save()
    assert other.done == ["save", "save"]


def test_the_chief_keeps_a_backup_of_which_nothing_is_left_to_train(pair: Pair, service: Service) -> None:
    """Until the other worker, which has met nobody in a step, comes to the end of `fit`, too."""
    chief = pair.make(0)
    made: list[Any] = []

    def restore() -> None:
        assert chief.done == []
        if not made:
            made.append(pair.make(1))
            pair.turn(0)
        else:
            service.keys[f"{made[0]._callback_key}/on_train_end/1/worker:1"] = "1"

    service.meanwhile = restore
    chief.on_train_end()
    assert (chief.done, len(service.waits)) == (["end"], 2)
    pair.turn(1)
    made[0].on_train_end()
    assert len(service.waits) == 2


def test_a_worker_that_trains_nothing_waits_for_the_chief_to_begin(pair: Pair, service: Service) -> None:
    """And then for the end of the chief's `fit`."""
    other = pair.make(1)
    made: list[Any] = []

    def begin() -> None:
        if not made:
            made.append(pair.make(0))
            made[0].on_epoch_begin(0)
            made[0].on_train_end()
            pair.turn(1)

    service.meanwhile = begin
    other.on_train_end()
    assert (made[0].done, len(service.waits)) == (["end"], 1)


@pytest.mark.parametrize("index", [0, 1])
def test_nothing_is_awaited_where_nothing_was_trained_or_written(pair: Pair, service: Service, index: int) -> None:
    """As in a program that only evaluates this time."""
    pair.make(index, "no backup").on_train_end()
    assert service.waits == []


def test_a_program_without_the_service_runs_as_it_is(
    pair: Pair, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No error comes of it."""
    monkeypatch.delitem(sys.modules, "tensorflow.python.eager.context")
    chief, other = pair.make(0), pair.make(1)
    other.save()
    pair.turn(0)
    chief.save()
    assert (chief.done, other.done) == (["save"], ["save"])
