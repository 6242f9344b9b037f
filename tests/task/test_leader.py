"""A worker of a gang connects once the leader listens, so that TensorFlow loses no second."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import leader
from tests.support import load

LEADER = "/job:worker/replica:0/task:0"


def server_def(task: str = "worker:1", leads: str = LEADER, first: str = "10.0.0.1:2222") -> Any:
    """The part of TensorFlow's definition of a worker's server that is read."""
    kind, _, index = task.partition(":")
    coordination = SimpleNamespace(service_leader=leads)
    config = SimpleNamespace(experimental=SimpleNamespace(coordination_config=coordination))
    job = SimpleNamespace(name="worker", tasks={0: first, 1: "10.0.0.2:2222"})
    cluster = SimpleNamespace(job=[job])
    return SimpleNamespace(default_session_config=config, job_name=kind, task_index=int(index), cluster=cluster)


class Moments:
    """Connections that fail until the leader listens, on a clock that only `sleep` advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, listens_at: float) -> None:
        self.now, self.listens_at = 0.0, listens_at
        self.asked: list[tuple[str, int]] = []
        monkeypatch.setattr(leader, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep))
        monkeypatch.setattr(leader, "socket", SimpleNamespace(create_connection=self.connect))

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds

    def connect(self, address: tuple[str, int], timeout: float) -> Any:
        """Refuse until the leader listens."""
        self.asked.append(address)
        if self.now < self.listens_at:
            raise ConnectionRefusedError
        return SimpleNamespace(close=lambda: None)


def patched(listens: Callable[[], float]) -> Any:
    """A patched context that records the time of its call."""

    class Context:
        """TensorFlow's."""

        def __init__(self) -> None:
            self.enabled: list[float] = []

        def enable_collective_ops(self, server_def: object) -> str:
            """Record the call, which starts the server and connects."""
            self.enabled.append(listens())
            return "result"

    leader.wait_for_leader(SimpleNamespace(Context=Context), load)
    return Context()


def test_a_worker_connects_as_soon_as_the_leader_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before, since TensorFlow would retry a second later."""
    moments = Moments(monkeypatch, listens_at=0.035)
    context = patched(lambda: moments.now)
    assert context.enable_collective_ops(server_def()) == "result"
    assert context.enabled == pytest.approx([0.04])
    assert {*moments.asked} == {("10.0.0.1", 2222)}


def test_a_worker_does_not_wait_for_a_leader_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow has its own limit and message."""
    moments = Moments(monkeypatch, listens_at=1e9)
    context = patched(lambda: moments.now)
    context.enable_collective_ops(server_def())
    assert context.enabled == pytest.approx([leader.WITHIN], abs=0.02)


@pytest.mark.parametrize(
    ("definition", "address"),
    [
        (server_def(), ("10.0.0.1", 2222)),
        (server_def(first="[::1]:2222"), ("::1", 2222)),
        (server_def(task="worker:0"), None),
        (server_def(leads=""), None),
    ],
)
def test_the_address_of_the_leader(definition: Any, address: tuple[str, int] | None) -> None:
    """No task waits for itself, or without a configured service."""
    assert leader.leader_of(definition) == address


@pytest.mark.parametrize(
    "definition", [None, server_def(leads="/job:ps/replica:0/task:0"), server_def(leads="?"), server_def(first="x")]
)
def test_a_definition_of_another_form_is_left_alone(definition: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow refuses it."""
    moments = Moments(monkeypatch, listens_at=1e9)
    context = patched(lambda: moments.now)
    assert context.enable_collective_ops(definition) == "result"
    assert context.enabled == [0.0]


def test_the_strategy_of_the_installed_tensorflow_calls_what_is_patched() -> None:
    """With a definition in which the leader's name has the expected form."""
    spec = find_spec("tensorflow")
    assert spec is not None
    assert spec.submodule_search_locations
    python = Path(spec.submodule_search_locations[0], "python")
    kinds = [node for node in ast.parse((python / "eager/context.py").read_text()).body
             if isinstance(node, ast.ClassDef) and node.name == "Context"]  # fmt: skip
    methods = {node.name: [arg.arg for arg in node.args.args] for node in kinds[0].body
               if isinstance(node, ast.FunctionDef)}  # fmt: skip
    assert methods["enable_collective_ops"] == ["self", "server_def"]
    assert "enable_collective_ops(server_def)" in (python / "distribute/collective_all_reduce_strategy.py").read_text()
    assert f'"{LEADER}"' in (python / "distribute/multi_worker_util.py").read_text()
