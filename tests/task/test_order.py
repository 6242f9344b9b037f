"""The order of data without seeds: the same in all workers if it is sharded, else another one in each."""

from __future__ import annotations

import json
import random
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import order, remaking
from tests.support import load


@pytest.fixture(autouse=True)
def a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of three workers, with a chief, in a separate process."""
    be(monkeypatch, "worker", 1)
    monkeypatch.setenv("CLUSTERKIT_SEED", "run-1")


def be(monkeypatch: pytest.MonkeyPatch, kind: str, index: int) -> None:
    """Make this process the task, which has requested no seed yet."""
    cluster = {"chief": ["c:1"], "worker": ["a:1", "b:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))
    order._places.clear()


def seeds(*places: str) -> list[int]:
    """The seeds for these places, in turn."""
    return [order.agreed_seed(place) for place in places]


def test_all_workers_have_the_same_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else they do in between; a later attempt has the same."""
    mine = seeds("a", "a", "b")
    be(monkeypatch, "chief", 0)
    assert seeds("only the chief's", "a", "b", "a")[1:] == [mine[0], mine[2], mine[1]]


def test_each_place_and_each_time_has_a_seed_of_its_own() -> None:
    """Two shuffles in one program are independent."""
    drawn = seeds(*"abc" * 200)
    assert len(set(drawn)) == len(drawn)
    assert all(0 <= seed < 2**31 for seed in drawn), "TensorFlow takes no more"


def test_another_run_has_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of the same program; outside clusterkit the cluster's addresses replace the run's seed."""
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
    assert order.worker_index() == place


class Dataset:
    """The part of a dataset that the patch reads: class, inputs, number of iterators."""

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
def test_each_worker_has_another_order_of_data_that_is_not_sharded(dataset: Dataset, first: int) -> None:
    """The third worker uses the third iterator of the sequence, and so on in each epoch."""
    seeds("some shuffle")
    kind = type("Kind", (Dataset,), {})
    order.shuffle_differently(SimpleNamespace(DatasetV2=kind), load)
    dataset.__class__ = type(type(dataset).__name__, (kind,), {})
    assert [next(iter(dataset)) for _ in range(3)] == [first, 2 * first, 3 * first]


def test_iteration_is_unchanged_if_all_shuffles_have_seeds() -> None:
    """Then the program decides."""
    kind = type("_ShuffleDataset", (Dataset,), {})
    order.shuffle_differently(SimpleNamespace(DatasetV2=kind), load)
    assert next(iter(kind())) == 1


@pytest.mark.parametrize(("policy", "first"), [("AUTO", 1), ("DATA", 1), ("FILE", 1), ("OFF", 3)])
def test_a_distributed_dataset_is_sharded_unless_that_is_off(policy: str, first: int) -> None:
    """A dataset from `experimental_distribute_dataset`."""
    seeds("some shuffle")
    kind = type("DistributedDataset", (Dataset,), {})
    order.shuffle_differently(SimpleNamespace(DistributedDataset=kind), load)
    dataset: Any = kind()
    distribute = SimpleNamespace(auto_shard_policy=SimpleNamespace(name=policy))
    dataset._original_dataset = SimpleNamespace(options=lambda: SimpleNamespace(experimental_distribute=distribute))
    assert next(iter(dataset)) == first


@pytest.mark.parametrize("seeded", [False, True])
def test_batches_of_a_pydataset_are_shuffled_in_the_same_order(monkeypatch: pytest.MonkeyPatch, seeded: bool) -> None:
    """Each time in another order; with Python's generator if the program has set TensorFlow's seed."""
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


def test_a_distributed_dataset_is_made_again_with_agreed_seeds() -> None:
    """Datasets that only one worker makes do not count; the data below the shuffle is used as it is."""

    class Source:
        _variant_tensor = None

    class Shuffle:
        _variant_tensor = None

        def __init__(self, source: Any) -> None:
            self.source = source
            seed = remaking.seed_of_remade()
            self.seed = order.agreed_seed("a line") if seed is None else seed
            vars(self)[remaking.PLACE] = "a line"

        def _inputs(self) -> list[Any]:
            return [self.source]

    remaking.keep_arguments(SimpleNamespace(DatasetV2=Shuffle))
    source = Source()
    peeked, dataset = Shuffle(source), Shuffle(source)
    again = remaking.agreed(dataset, order.distributed_seed)
    assert (again.source, again.seed) == (source, order.seed_of("a line", 1))
    assert peeked.seed == again.seed != dataset.seed
    assert remaking.agreed(dataset, order.distributed_seed).seed == order.seed_of("a line", 2)
    assert remaking.agreed(source, order.distributed_seed) is source
