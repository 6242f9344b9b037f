"""A task's reports of how it trains: the strategies, the cluster, and whether several tasks train together."""

from __future__ import annotations

import atexit
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import distribution as patch
from clusterkit.task.patches.distribution import Distribution
from tests.support import load

Told = list[dict[str, Any]]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """The reports of a process in which nothing is known yet."""
    reports: Told = []

    def write(kind: str, fields: str) -> None:
        assert kind == "strategy"
        reports.append(json.loads(f"{{{fields}}}"))

    monkeypatch.setattr(patch, "instances", [Distribution(write)])
    monkeypatch.setattr(patch, "OTHERS", ("no_such_module",))
    return reports


class StrategyBase:
    """TensorFlow's."""

    def __init__(self, extended: Any = None) -> None:
        self.extended = extended


class MirroredStrategy(StrategyBase):
    """A strategy for the devices of one task."""


class _CollectiveAllReduceStrategyExperimental(StrategyBase):
    """A strategy with another public name."""


class ParameterServerStrategyV2(StrategyBase):
    """Another strategy with a different public name."""


class _DefaultDistributionStrategy(StrategyBase):
    """TensorFlow's strategy outside any scope."""


class Extended:
    """The implementation of a strategy."""

    def __init__(self, spans: bool | None) -> None:
        self.spans = spans

    def _in_multi_worker_mode(self) -> bool:
        if self.spans is None:
            raise NotImplementedError
        return self.spans

    def call_for_each_replica(self, step: Callable[[int], int], args: Any = ()) -> int:
        """Run something."""
        return step(*args)


class ParameterServerStrategyV2Extended(Extended):
    """An implementation without `_in_multi_worker_mode`."""


def server_def(*sizes: int) -> Any:
    """A cluster of jobs with these numbers of tasks."""
    return SimpleNamespace(
        cluster=SimpleNamespace(job=[SimpleNamespace(tasks=dict.fromkeys(range(s), "")) for s in sizes])
    )


class Context:
    """TensorFlow's."""

    def enable_collective_ops(self, server_def: Any) -> str:
        """Join a cluster."""
        return "joined"

    set_server_def = update_server_def = enable_collective_ops


class Server:
    """TensorFlow's."""

    def __init__(self, server_def: Any) -> None:
        self._server_def = server_def


class ClusterCoordinator:
    """TensorFlow's."""

    def schedule(self, closure: int) -> int:
        """Take a step."""
        return closure


class CallbackList:
    """Keras's, of a model in the scope of a strategy."""

    def __init__(self, strategy: Any) -> None:
        self.model = SimpleNamespace(distribute_strategy=strategy) if strategy else object()

    def on_train_begin(self, logs: Any = None) -> str:
        """Begin to fit."""
        return "begun"


def fresh(kind: type) -> Any:
    """A copy of a class, for the patch to change."""
    return type(kind.__name__, kind.__bases__, dict(vars(kind)))


def test_each_strategy_is_reported_once_by_the_name_that_users_know(told: Told) -> None:
    """TensorFlow's default does not count."""
    base = fresh(StrategyBase)
    patch.watch(SimpleNamespace(StrategyBase=base, StrategyExtendedV2=fresh(Extended)), load)
    for kind in (
        *(_DefaultDistributionStrategy, MirroredStrategy, MirroredStrategy),
        *(_CollectiveAllReduceStrategyExperimental, ParameterServerStrategyV2),
    ):
        type(kind.__name__, (base,), {})("extended")
    names = ["MirroredStrategy", "MultiWorkerMirroredStrategy", "ParameterServerStrategy"]
    assert [report["strategies"] for report in told] == [names[:1], names[:2], names]
    assert told[-1] == {"strategies": names, "cluster": 0, "distributed": False, "training": "none"}


@pytest.mark.parametrize(
    ("kind", "spans", "distributed"),
    [(Extended, True, True), (Extended, False, False), (Extended, None, False),
     (ParameterServerStrategyV2Extended, None, True)],
)  # fmt: skip
def test_what_a_strategy_for_several_tasks_runs_is_distributed(
    told: Told, kind: type[Extended], spans: bool | None, distributed: bool
) -> None:
    """Reported once for any number of steps, which run as before."""
    extended = fresh(Extended)
    patch.watch(SimpleNamespace(StrategyBase=fresh(StrategyBase), StrategyExtendedV2=extended), load)
    one = type(kind.__name__, (extended,), {})(spans)
    assert [one.call_for_each_replica(lambda n: n + 1, args=(n,)) for n in range(3)] == [1, 2, 3]
    assert [report["distributed"] for report in told] == [True] * distributed


@pytest.mark.parametrize("name", ["enable_collective_ops", "set_server_def", "update_server_def"])
def test_a_cluster_that_is_joined(told: Told, name: str) -> None:
    """The largest one counts; one task alone is not a cluster."""
    kind = fresh(Context)
    patch.watch(SimpleNamespace(Context=kind), load)
    joins = getattr(kind(), name)
    assert [joins(server_def(*sizes)) for sizes in ((1,), (1, 2, 1), (2,))] == ["joined"] * 3
    assert [report["cluster"] for report in told] == [4]
    joins(None)


def test_a_server_and_a_coordinator_are_reported(told: Told) -> None:
    """A server joins its cluster; a coordinator's workers train."""
    server, coordinator = fresh(Server), fresh(ClusterCoordinator)
    patch.watch(SimpleNamespace(Server=server), load)
    patch.watch(SimpleNamespace(ClusterCoordinator=coordinator), load)
    server(server_def(1, 1))
    assert [coordinator().schedule(n) for n in range(3)] == [0, 1, 2]
    assert [(report["cluster"], report["distributed"]) for report in told] == [(2, False), (2, True)]


@pytest.mark.parametrize(
    ("strategy", "training"),
    [(_DefaultDistributionStrategy(), ["fit"]), (MirroredStrategy(), ["scoped fit"]), (None, [])],
)
def test_fit_in_a_scope_and_outside(told: Told, strategy: Any, training: list[str]) -> None:
    """Nothing is reported if it is not a model of Keras."""
    kind = fresh(CallbackList)
    patch.watch(SimpleNamespace(CallbackList=kind), load)
    assert [kind(strategy).on_train_begin() for _ in range(2)] == ["begun"] * 2
    assert [report["training"] for report in told] == training


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_fit_outside_beside_one_in_a_scope(told: Told, order: tuple[int, int]) -> None:
    """Whichever comes first: the training is distributed, and the line of the other fit is reported."""
    kind = fresh(CallbackList)
    patch.watch(SimpleNamespace(CallbackList=kind), load)
    strategies = (MirroredStrategy(), _DefaultDistributionStrategy())
    for which in order:
        kind(strategies[which]).on_train_begin()
    assert told[-1]["training"] == "scoped fit"
    assert re.fullmatch(r"test_distribution\.py, line \d+", told[-1]["outside"])


def test_a_loop_of_the_programs_own(told: Told) -> None:
    """An optimizer or a gradient tape shows it, a fit outweighs it; DTensor's mesh counts as a strategy."""
    optimizers, tapes, meshes = (type(name, (Server,), {}) for name in ("BaseOptimizer", "GradientTape", "Mesh"))
    patch.watch(SimpleNamespace(BaseOptimizer=optimizers), load)
    patch.watch(SimpleNamespace(GradientTape=tapes), load)
    patch.watch(SimpleNamespace(Mesh=meshes), load)
    for kind in (optimizers, tapes, meshes, meshes):
        kind("x")
    patch.instances[0].fit(SimpleNamespace(distribute_strategy=_DefaultDistributionStrategy()), lambda: "")
    tapes("x")
    assert [(report["training"], report["strategies"]) for report in told] == [
        ("loop", []),
        ("loop", ["DTensor"]),
        ("fit", ["DTensor"]),
    ]


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("no_such_module", SimpleNamespace()),
        ("jax._src.distributed", SimpleNamespace(global_state=SimpleNamespace(client=object()))),
        ("jax._src.distributed", SimpleNamespace()),
        ("torch.distributed", SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True)),
        ("keras.src.backend.config", SimpleNamespace(backend=lambda: "jax")),
    ],
)
def test_a_program_that_may_train_otherwise_reports_no_training(
    told: Told, monkeypatch: pytest.MonkeyPatch, name: str, module: Any
) -> None:
    """Horovod, JAX, PyTorch, Keras with another backend: they find their peers in other ways."""
    monkeypatch.setitem(sys.modules, name, module)
    patch.instances[0].loop()
    patch.instances[0].fit(SimpleNamespace(distribute_strategy=_DefaultDistributionStrategy()), lambda: "")
    assert {report["training"] for report in told} == {"none"}


def test_modules_that_are_imported_and_not_used_say_nothing(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs may import JAX and PyTorch beside TensorFlow."""
    jax = SimpleNamespace(global_state=SimpleNamespace(client=None))
    torch = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False)
    for name, module in {"jax._src.distributed": jax, "torch.distributed": torch}.items():
        monkeypatch.setitem(sys.modules, name, module)
    patch.instances[0].loop()
    assert [report["training"] for report in told] == ["loop"]


@pytest.mark.parametrize(
    ("text", "uncalled"),
    [
        ("def main():\n    pass\n", True),
        ("import x\n\ndef main(argv):\n    return 0\n\ndef other():\n    pass\n", True),
        ("def main():\n    pass\n\nmain()\n", False),
        ("def main():\n    pass\n\nif __name__ == '__main__':\n    main()\n", False),
        ("from absl import app\n\ndef main(_):\n    pass\n\napp.run(main)\n", False),
        ("import fire\n\ndef main():\n    pass\n\nfire.Fire({'main': globals()['main']})\n", False),
        ("import cli\n\n@cli.main\ndef main():\n    pass\n", False),
        ("def train():\n    pass\n", False),
        ("class C:\n    def main(self):\n        pass\n", False),
        ("def main(:\n", False),
        ("", False),
        (None, False),
    ],
)
def test_a_main_that_nothing_calls(
    told: Told, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None, uncalled: bool
) -> None:
    """Checked when a program with a file ends that has trained nothing."""
    main = ModuleType("__main__")
    if text is not None:
        main.__file__ = str(tmp_path / "program.py")
        Path(main.__file__).write_text(text)
    monkeypatch.setitem(sys.modules, "__main__", main)
    patch.instances[0].end()
    assert [report["training"] for report in told] == ["uncalled"] * uncalled


def test_a_program_that_trained_is_not_looked_at(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that is hard to see may have called its main()."""
    monkeypatch.setattr(patch, "has_uncalled_main", lambda: True)
    patch.instances[0].loop()
    patch.instances[0].end()
    assert [report["training"] for report in told] == ["loop"]


def test_the_end_is_watched_from_the_first_patch_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """All patches of a process share one record."""
    registered: list[object] = []
    monkeypatch.setattr(patch, "instances", [])
    monkeypatch.setattr(atexit, "register", registered.append)
    assert patch.of_task(load) is patch.of_task(load)
    assert registered == [patch.instances[0].end]
