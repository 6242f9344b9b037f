"""A coordinator's end: the functions that it drops are removed from its servers later."""

from __future__ import annotations

import ast
import atexit
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.task.patches import endings
from tests import support


class Context:
    """The part of TensorFlow's context for functions; removing one takes a round trip to every server."""

    def __init__(self) -> None:
        self._handle: object = object()
        self.names = set[str]()
        self.removed = list[str]()

    def remove_function(self, name: str) -> None:
        """Fails for a function that it does not have, as TensorFlow does."""
        self.removed.append(name)
        self.names.remove(name)

    def add_c_function(self, name: str) -> None:
        """Fails for a function that it has."""
        assert name not in self.names
        self.names.add(name)

    def has_function(self, name: str) -> bool:
        """Whether it has one."""
        return name in self.names


@pytest.fixture
def context() -> Any:
    """A patched context."""
    kind = type("Context", (Context,), {})
    endings.delay_removals(SimpleNamespace(Context=kind), support.load)
    return kind()


def test_functions_that_a_program_drops_at_its_end_are_not_removed(context: Any) -> None:
    """The program does not wait for its servers."""
    for name in ("f", "g"):
        context.add_c_function(name)
    context.remove_function("f")
    context.remove_function("g")
    assert context.removed == []


def test_functions_are_removed_before_others_are_added_or_looked_for(context: Any) -> None:
    """So that a program that drops many does not keep them, and can reuse a name."""
    for _ in range(3):
        context.add_c_function("f")
        context.remove_function("f")
    assert context.removed == ["f", "f"]
    assert not context.has_function("f")
    assert context.removed == ["f", "f", "f"]
    assert not context.has_function("f")
    assert len(context.removed) == 3


def test_a_failed_removal_does_not_keep_other_functions(context: Any) -> None:
    """For example if a server is gone."""
    context.add_c_function("f")
    context.remove_function("unknown")
    context.remove_function("f")
    context.add_c_function("g")
    assert (context.removed, context.names) == (["unknown", "f"], {"g"})


def test_functions_of_a_context_that_was_replaced_are_forgotten(context: Any) -> None:
    """They were deleted with it; the new one may have others with the same names."""
    context.add_c_function("f")
    context.remove_function("f")
    context._handle = object()
    assert context.has_function("f")
    assert context.removed == []


def test_the_context_of_the_installed_tensorflow_is_as_the_patch_expects() -> None:
    """It has every patched method, each with the context as first argument."""
    spec = find_spec("tensorflow")
    assert spec is not None
    assert spec.submodule_search_locations
    text = Path(spec.submodule_search_locations[0], "python/eager/context.py").read_text()
    kinds = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == "Context"]
    methods = {node.name: node.args.args[0].arg for node in kinds[0].body if isinstance(node, ast.FunctionDef)}
    assert {methods.get(name) for name in ("remove_function", *endings.LOOKUPS)} == {"self"}


def test_the_end_of_a_program_is_reported_before_its_coordinator_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process may hang in the deletion; otherwise it continues."""
    told, registered = list[tuple[str, ...]](), list[tuple[Any, ...]]()
    monkeypatch.setattr(atexit, "register", lambda *call: registered.append(call))
    steps = SimpleNamespace(steps=SimpleNamespace(write=lambda *report: told.append(report)))
    load = {"task/patches/steps": steps, "task/patches/hook": support.load("task/patches/hook")}

    class ClusterCoordinator:
        def __del__(self) -> None:
            told.append(("deleted",))

    endings.report_end(SimpleNamespace(ClusterCoordinator=ClusterCoordinator), load.get)
    coordinator = ClusterCoordinator()
    assert told == []
    del coordinator
    assert told == [("end", '"begun":true'), ("deleted",), ("end", '"begun":false')]
    ((call, *report),) = registered
    call(*report)
    assert told[3:] == [("end", '"begun":true')]
