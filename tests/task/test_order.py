"""The order of unseeded data: the same in all workers where data is sharded, another one in each where it is not."""

from __future__ import annotations

import json
import random
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import order
from tests.support import load


@pytest.fixture(autouse=True)
def a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker of three, with a chief, in a process of its own."""
    be(monkeypatch, "worker", 1)
    monkeypatch.setenv("CLUSTERKIT_SEED", "run-1")


def be(monkeypatch: pytest.MonkeyPatch, kind: str, index: int) -> None:
    """Be this task, and have asked for no seed yet."""
    cluster = {"chief": ["c:1"], "worker": ["a:1", "b:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))
    order._places.clear()


def seeds(*places: str) -> list[int]:
    """The seeds for these places, in turn."""
    return [order.agreed_seed(place) for place in places]


def test_all_workers_have_the_same_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else they do between them; a later attempt has them, too."""
    mine = seeds("a", "a", "b")
    be(monkeypatch, "chief", 0)
    assert seeds("only the chief's", "a", "b", "a")[1:] == [mine[0], mine[2], mine[1]]


def test_each_place_and_each_time_has_a_seed_of_its_own() -> None:
    """Two shuffles of one program are independent of each other."""
    drawn = seeds(*"abc" * 200)
    assert len(set(drawn)) == len(drawn)
    assert all(0 <= seed < 2**31 for seed in drawn), "TensorFlow takes no more"


def test_another_run_has_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same program; outside clusterkit the cluster's addresses stand for the run."""
    first = seeds("a")
    monkeypatch.setenv("CLUSTERKIT_SEED", "run-2")
    order._places.clear()
    assert seeds("a") != first
    monkeypatch.delenv("CLUSTERKIT_SEED")
    order._places.clear()
    addressed = seeds("a")
    be(monkeypatch, "worker", 0)
    assert seeds("a") == addressed != first


@pytest.mark.parametrize(("kind", "index", "place"), [("chief", 0, 0), ("worker", 0, 1), ("worker", 1, 2)])
def test_a_workers_place_counts_the_chief(monkeypatch: pytest.MonkeyPatch, kind: str, index: int, place: int) -> None:
    """As TensorFlow numbers its input pipelines."""
    be(monkeypatch, kind, index)
    assert order._worker() == place


class Dataset:
    """A dataset as far as the patch looks at it: its class, its inputs, how many iterators were made."""

    def __init__(self, *inputs: Any) -> None:
        self.inputs, self.iterators = inputs, 0

    def _inputs(self) -> list[Any]:
        return list(self.inputs)

    def __iter__(self) -> Any:
        self.iterators += 1
        return iter([self.iterators])


class _ShardDataset(Dataset): ...


class _ShuffleDataset(Dataset): ...


class _BatchDataset(Dataset): ...


@pytest.mark.parametrize(
    ("dataset", "first"),
    [
        (_BatchDataset(), 1),
        (_BatchDataset(_ShuffleDataset()), 3),
        (_BatchDataset(_ShardDataset(_ShuffleDataset())), 1),
        (_ShuffleDataset(_ShardDataset(_BatchDataset())), 1),
    ],
    ids=["no shuffle", "not sharded", "shuffled and sharded", "sharded and shuffled"],
)
def test_what_is_not_sharded_is_read_in_an_order_of_the_workers_own(dataset: Dataset, first: int) -> None:
    """The third worker takes the third iterator of the same sequence, and so on in each epoch."""
    seeds("some shuffle")
    kind = type("Kind", (Dataset,), {})
    order.iterate_apart(SimpleNamespace(DatasetV2=kind), load)
    dataset.__class__ = type(type(dataset).__name__, (kind,), {})
    assert [next(iter(dataset)) for _ in range(3)] == [first, 2 * first, 3 * first]


def test_nothing_is_read_apart_where_all_shuffles_have_seeds() -> None:
    """The program knows what it does."""
    kind = type("_ShuffleDataset", (Dataset,), {})
    order.iterate_apart(SimpleNamespace(DatasetV2=kind), load)
    assert next(iter(kind())) == 1


@pytest.mark.parametrize(("policy", "first"), [("AUTO", 1), ("DATA", 1), ("FILE", 1), ("OFF", 3)])
def test_a_distributed_dataset_is_sharded_unless_that_is_off(policy: str, first: int) -> None:
    """What `experimental_distribute_dataset` makes."""
    seeds("some shuffle")
    kind = type("DistributedDataset", (Dataset,), {})
    order.iterate_apart(SimpleNamespace(DistributedDataset=kind), load)
    dataset: Any = kind()
    distribute = SimpleNamespace(auto_shard_policy=SimpleNamespace(name=policy))
    dataset._original_dataset = SimpleNamespace(options=lambda: SimpleNamespace(experimental_distribute=distribute))
    assert next(iter(dataset)) == first


@pytest.mark.parametrize("seeded", [False, True])
def test_batches_of_a_pydataset_are_shuffled_alike(monkeypatch: pytest.MonkeyPatch, seeded: bool) -> None:
    """Each time in another order; by Python's own generator if the program has set TensorFlow's seed."""
    context = SimpleNamespace(executing_eagerly=lambda: True, global_seed=lambda: 1 if seeded else None)
    monkeypatch.setitem(sys.modules, "tensorflow.python.eager.context", context)

    def shuffled() -> list[list[int]]:
        order._places.clear()
        adapter = ModuleType("py_dataset_adapter")
        order.shuffle_batches(adapter, load)
        found = []
        for _ in range(2):
            items = list(range(30))
            adapter.random.shuffle(items)
            found.append(items)
        return found

    random.seed(1)
    first = shuffled()
    assert first[0] != first[1]
    assert (shuffled() == first) is not seeded
