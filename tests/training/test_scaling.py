"""Batch sizes and learning rates that go with the number of replicas."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from clusterkit.training import scaling


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)


def be_one_of(monkeypatch: pytest.MonkeyPatch, **sizes: int) -> None:
    cluster = {name: [f"h:{n}" for n in range(size)] for name, size in sizes.items()}
    task = {"type": next(iter(sizes)), "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))


@pytest.mark.parametrize(
    ("sizes", "replicas"),
    [
        ({}, 1),
        ({"worker": 4}, 4),
        ({"chief": 1, "worker": 2}, 3),
        ({"chief": 1, "worker": 4, "ps": 2}, 1),  # each worker's step is applied alone
    ],
)
def test_replicas_of_the_cluster(monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int], replicas: int) -> None:
    """Without a strategy it is the number of workers."""
    if sizes:
        be_one_of(monkeypatch, **sizes)
    assert scaling.replicas() == replicas


def test_replicas_of_a_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A given strategy takes precedence, then the current one, then the cluster."""
    be_one_of(monkeypatch, worker=2)
    in_scope = SimpleNamespace(num_replicas_in_sync=8)
    distribute = SimpleNamespace(has_strategy=lambda: True, get_strategy=lambda: in_scope)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(distribute=distribute))
    assert scaling.replicas() == 8
    assert scaling.replicas(SimpleNamespace(num_replicas_in_sync=3)) == 3
    distribute.has_strategy = lambda: False
    assert scaling.replicas() == 2


def test_a_divisible_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each replica gets the same part."""
    be_one_of(monkeypatch, worker=3)
    assert scaling.per_replica_batch(96) == 32


@pytest.mark.parametrize(("batch", "near"), [(100, "99 or 102."), (2, "3."), (0, "3."), (-4, "3.")])
def test_an_indivisible_batch(monkeypatch: pytest.MonkeyPatch, batch: int, near: str) -> None:
    """The error names the nearest valid sizes."""
    be_one_of(monkeypatch, worker=3)
    with pytest.raises(ValueError, match=f"{batch} is not divisible by the 3 replicas: use {near}"):
        scaling.per_replica_batch(batch)


@pytest.mark.parametrize(("step", "rate"), [(0, 0.1), (50, 0.25), (100, 0.4), (1000, 0.4)])
def test_the_rate_grows_linearly_to_its_scale(step: int, rate: float) -> None:
    """The rate grows from that of one replica to that of four, and then stays."""
    assert scaling.scaled(0.1, step, 100, 4) == pytest.approx(rate)


def test_no_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a warm-up it is scaled from the first step, by the number of workers."""
    be_one_of(monkeypatch, worker=2)
    assert scaling.scaled(0.1, 0, 0) == pytest.approx(0.2)


def test_one_replica_needs_no_warm_up() -> None:
    """A single replica needs no scaling."""
    assert [scaling.scaled(0.1, step, 10) for step in (0, 5, 20)] == pytest.approx([0.1, 0.1, 0.1])
