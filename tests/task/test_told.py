"""A repair is reported once, when it takes effect; each has an explanation."""

from __future__ import annotations

import re
import sys
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import hook, told
from clusterkit.words.repairs import REPAIRS
from tests import support
from tests.syntax import read
from tests.task.test_leader import Moments, patched, server_def


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is reported in a process in which no repair has taken effect yet."""
    found: list[tuple[str, str]] = []
    steps = support.load("task/patches/steps").steps
    monkeypatch.setattr(told, "_effects", set[str]())
    monkeypatch.setattr(steps, "path", "a pipe")
    monkeypatch.setattr(steps, "write", lambda *report: found.append(report))
    return found


def test_a_repair_is_reported_when_it_first_takes_effect(
    reports: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each one once, and by one line."""
    for name in ("order", "callbacks-apart", "order"):
        told.effect(name, support.load)
    assert reports == [("repair", '"repair":"order"'), ("repair", '"repair":"callbacks-apart"')]
    assert capsys.readouterr().err.splitlines() == [
        "clusterkit: patched shuffles without a seed (clusterkit show --patches).",
        "clusterkit: patched the paths of callbacks' files (clusterkit show --patches).",
    ]


def test_a_program_that_clusterkit_does_not_start_gets_no_advice_on_runs(
    reports: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has called `patches.apply`."""
    monkeypatch.setattr(support.load("task/patches/steps").steps, "path", None)
    told.effect("callbacks-apart", support.load)
    assert capsys.readouterr().err == ("clusterkit: patched the paths of callbacks' files.\n")


@pytest.mark.parametrize("name", [name for name, repair in REPAIRS.items() if not repair.line])
def test_what_changes_no_number_is_only_reported(
    reports: list[tuple[str, str]], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """So is what prints a line of its own."""
    told.effect(name, support.load)
    assert reports == [("repair", f'"repair":"{name}"')]
    assert capsys.readouterr().err == ""


def test_a_report_that_fails_stops_nothing(reports: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may have closed stderr, or be about to exit; an unknown name is not a reason to end a training."""

    def fails(*_: object, **__: object) -> None:
        raise ValueError("I/O operation on closed file")

    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=fails, flush=fails))
    told.effect("order", support.load)
    told.effect("no such repair", support.load)
    told.effect("backup-whole", fails)
    assert reports[0] == ("repair", '"repair":"order"')


def test_every_repair_is_explained_and_reports_itself() -> None:
    """And nothing else is: what observes, and what only stops a program, is in tables of its own."""
    assert REPAIRS.keys() == hook.REPAIRS.keys()
    assert len(hook.PATCHES) == len(hook.REPAIRS) + len(hook.REFUSALS) + len(hook.PROBES)
    folder = support.ROOT / "clusterkit/task/patches"
    sources = "".join(path.read_text() for path in sorted(folder.rglob("*.py")))
    assert {*re.findall(r'effect\("([\w-]+)", (?:self\.)?load\)', sources)} == REPAIRS.keys()


@pytest.mark.parametrize("name", REPAIRS)
def test_an_explanation_is_made_of_sentences(name: str) -> None:
    """What it changes, and why a program that is right without it stays right; the log has a phrase."""
    change, safe, line = REPAIRS[name]
    assert all(text.endswith(".") and "\n" not in text for text in (change, safe))
    assert not line.endswith(".")


def test_a_task_can_load_the_table_by_its_path() -> None:
    """Its interpreter may have no clusterkit, and gets no module that it has not imported itself."""
    assert {*read(support.ROOT / "clusterkit/words/repairs.py").imports} == {
        "__future__.annotations",
        "typing.NamedTuple",
    }


def test_a_seed_is_reported_when_a_dataset_gets_it(
    reports: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not if the program gives one."""
    order = support.load("task/patches/order")
    monkeypatch.setattr(order, "is_seeded", lambda: False)
    context = SimpleNamespace(executing_eagerly=lambda: True)
    monkeypatch.setitem(sys.modules, "tensorflow.python.eager.context", context)
    monkeypatch.setenv("CLUSTERKIT_SEED", "1")
    random_seed: Any = SimpleNamespace(get_seed=lambda seed: seed)
    order.seed_datasets(random_seed, support.load)
    assert random_seed.get_seed(7) == 7
    assert reports == []
    assert isinstance(random_seed.get_seed(None), int)
    assert reports == [("repair", '"repair":"order"')]


def test_a_wait_for_the_leader_is_reported_if_the_worker_was_first(
    reports: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose first connection is accepted does what it does without the patch."""
    for listens_at, expected in ((0.0, []), (0.05, [("repair", '"repair":"leader-first"')])):
        moments = Moments(monkeypatch, listens_at=listens_at)
        patched(partial(getattr, moments, "now")).enable_collective_ops(server_def())
        assert reports == expected


def test_a_removal_is_reported_when_it_is_delayed(reports: list[tuple[str, str]]) -> None:
    """A program that keeps its functions is not changed."""
    kind: Any = type(
        "Context", (), {"_handle": None, "remove_function": lambda *_: None, "has_function": lambda *_: True}
    )
    support.load("task/patches/endings").delay_removals(SimpleNamespace(Context=kind), support.load)
    kind().has_function("f")
    assert reports == []
    kind().remove_function("f")
    assert reports == [("repair", '"repair":"coordinator-functions"')]


def test_a_report_of_a_callback_says_that_its_path_was_moved(
    reports: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Not that there is a patch: a program without callbacks is not changed."""
    callbacks = support.load("task/patches/callbacks")
    files = SimpleNamespace(makedirs=lambda _: None)
    monkeypatch.setattr(callbacks, "_files", lambda: files)
    monkeypatch.setenv("TF_CONFIG", '{"task": {"type": "worker", "index": 1}}')

    class CSVLogger:
        def __init__(self, filename: str) -> None:
            self.filename = filename

        def on_train_end(self, logs: object = None) -> None: ...

    callbacks.write_separately(SimpleNamespace(CSVLogger=CSVLogger), support.load)
    assert reports == []
    assert CSVLogger("logs/log.csv").filename == "logs/workertemp_1/log.csv"
    assert reports == [("repair", '"repair":"callbacks-apart"')]
