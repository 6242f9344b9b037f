"""Methods that patches wrap: called in order, with the same arguments, and shown with the original name."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from clusterkit.task.patches import hook


class Greeter:
    """A class to patch."""

    def greet(self, name: str, *, word: str = "hello") -> str:
        """A plain method."""
        return f"{word} {name}"


@pytest.mark.parametrize(("patch", "order"), [(hook.before, ["call", "plain"]), (hook.after, ["plain", "call"])])
def test_a_call_before_or_after_a_method_gets_its_arguments(patch: Any, order: list[str]) -> None:
    """By position or by name; the method returns the same result, and keeps its name."""
    seen = list[str]()

    class Own(Greeter):
        def greet(self, name: str, *, word: str = "hello") -> str:
            """A plain method."""
            seen.append("plain")
            return super().greet(name, word=word)

    def call(self: Any, name: str, word: str = "hello") -> None:
        assert (type(self), name, word) == (Own, "you", "good day")
        seen.append("call")

    plain = Own.greet
    patch(Own, "greet", call)
    assert Own().greet("you", word="good day") == Own().greet(name="you", word="good day") == "good day you"
    assert seen == order * 2
    assert inspect.signature(Own.greet) == inspect.signature(plain)
    assert (Own.greet.__name__, Own.greet.__qualname__) == (plain.__name__, plain.__qualname__)


def test_a_method_that_raises_calls_nothing_afterwards() -> None:
    """The patched method raises the same."""
    called = list[str]()
    own: Any = type("Own", (Greeter,), {})
    hook.after(own, "greet", lambda *_: called.append("call"))
    with pytest.raises(TypeError):
        own().greet()
    assert called == []


def test_a_call_before_the_first_one_undoes_its_patch() -> None:
    """Also where several of them lie upon another; below a lasting patch they stay, and then run again."""
    order: list[str] = []

    class Coordinator:
        def schedule(self, name: str) -> str:
            order.append(name)
            return name

    plain = Coordinator.schedule
    for call in ("inner", "outer"):
        hook.before_first(Coordinator, "schedule", lambda self, name, call=call: order.append(f"{call} {name}"))
    assert Coordinator().schedule("a") == "a"
    assert Coordinator.schedule is plain
    assert Coordinator().schedule("b") == "b"
    assert order == ["outer a", "inner a", "a", "b"]
    order.clear()
    hook.before_first(Coordinator, "schedule", lambda self, name: order.append(f"first {name}"))
    hook.before(Coordinator, "schedule", lambda self, name: order.append(f"each {name}"))
    Coordinator().schedule("c")
    assert order == ["each c", "first c", "c"]
