"""`patches.apply()`: the repairs of Keras in a program that clusterkit did not start."""

from __future__ import annotations

import json
import sys

import pytest

from clusterkit import patches
from clusterkit.task.patches import hook

TWO = {"worker": ["a:1", "b:1"]}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the installed patches; the process's state is restored."""
    names: list[str] = []

    def install(wanted: list[str], load: object) -> None:
        names.extend(wanted)
        monkeypatch.setattr(sys, hook.MARK, True, raising=False)

    monkeypatch.setattr(hook, "install", install)
    monkeypatch.delattr(sys, hook.MARK, raising=False)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    return names


def config(cluster: dict[str, list[str]], kind: str = "worker", index: int = 0) -> str:
    """A TF_CONFIG."""
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (config(TWO), ["keras-fit", "order", "backup-whole"]),
        (config(TWO, index=1), ["keras-fit", "order", "callbacks-apart"]),
        (config({"chief": ["c:1"], **TWO}), ["keras-fit", "order", "callbacks-apart"]),
        (config({"chief": ["c:1"], **TWO}, "chief"), ["keras-fit", "order", "backup-whole"]),
        (config({"worker": ["a:1"]}), []),
        (config(TWO, "evaluator"), []),
        (config({"chief": ["c:1"], "ps": ["p:1"], **TWO}, "chief"), []),
    ],
)
def test_each_task_gets_what_up_gives_it(
    installed: list[str], monkeypatch: pytest.MonkeyPatch, text: str, names: list[str]
) -> None:
    """Once, however often it is called."""
    monkeypatch.setenv("TF_CONFIG", text)
    patches.apply()
    patches.apply()
    assert installed == names


def test_nothing_happens_without_a_cluster(installed: list[str]) -> None:
    """A program runs the same in a single process."""
    patches.apply()
    assert installed == []


def test_nothing_happens_in_a_task_of_clusterkits(installed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The task is patched already."""
    monkeypatch.setenv("TF_CONFIG", config(TWO))
    monkeypatch.setattr(sys, hook.MARK, True, raising=False)
    patches.apply()
    assert installed == []


@pytest.mark.parametrize(("known", "names"), [("keras-fit,order,steps", ["keras-fit", "order"]), ("steps,stages", [])])
def test_a_process_that_a_task_starts_is_patched(
    installed: list[str], monkeypatch: pytest.MonkeyPatch, known: str, names: list[str]
) -> None:
    """As its task is, whose variables it has: not at all with --no-patches."""
    monkeypatch.setenv("TF_CONFIG", config(TWO))
    monkeypatch.setenv("CLUSTERKIT_PATCHES", known)
    patches.apply()
    assert installed == names


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"cluster": []}', config({"nosuch": ["a:1"]}), config(TWO, "nosuch"), "[" * 100000]
)
def test_an_invalid_tf_config_is_reported(installed: list[str], monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """In one sentence."""
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="TF_CONFIG does not describe a task of a cluster"):
        patches.apply()
    assert installed == []
