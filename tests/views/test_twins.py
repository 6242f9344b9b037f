"""Lines that several streams have at about the same time, as histories."""

from __future__ import annotations

import random
from dataclasses import dataclass

from clusterkit.views.repeats import MOST_HELD, WITHIN, Twins

ALL = "*"


@dataclass(frozen=True)
class Named:
    """A stream."""

    name: str

    def line(self, text: str, prefix: str = "") -> str:
        """A line with its prefix."""
        return f"{prefix or self.name} {text}"


A, B = Named("a"), Named("b")


def test_a_line_of_all_is_shown_once() -> None:
    """If it differs in times alone."""
    twins = Twins(ALL)
    assert twins.feed(A, [], 0.0) == twins.feed(B, [], 0.0) == []
    assert twins.feed(A, ["Epoch 1", "8/8 3s 14ms/step - loss: 0.5", "x"], 0.0) == []
    assert twins.feed(B, ["Epoch 1", "8/8 4s 1ms/step - loss: 0.5", "y"], 0.1) == [
        "* Epoch 1",
        "* 8/8 3s 14ms/step - loss: 0.5",
        "a x",
    ]
    assert twins.drain() == ["b y"]


def test_a_line_of_one_waits_no_longer_than_it_may() -> None:
    """It is due then, and keeps its order."""
    twins = Twins(ALL)
    twins.feed(A, [], 0.0)
    twins.feed(B, [], 0.0)
    assert twins.feed(A, ["x"], 1.0) == []
    assert twins.due_at == 1.0 + WITHIN
    assert twins.settle(1.0 + WITHIN / 2) == []
    assert twins.settle(1.0 + WITHIN) == ["a x"]
    assert twins.due_at is None
    twins.end(B)
    assert twins.feed(A, ["y"], 2.0) == ["a y"]  # nobody else may have it


def test_a_stream_holds_so_many_lines_at_most() -> None:
    """One that writes fast while another is silent."""
    twins = Twins(ALL)
    twins.feed(B, [], 0.0)
    lines = [str(number) for number in range(3 * MOST_HELD)]
    assert twins.feed(A, lines, 0.0) == [f"a {line}" for line in lines[: 2 * MOST_HELD]]
    assert twins.drain() == [f"a {line}" for line in lines[2 * MOST_HELD :]]


def test_no_line_is_lost_or_changes_its_place() -> None:
    """Whatever streams write, in their order; control characters among it."""
    for seed in range(200):
        chance, twins, shown = random.Random(seed), Twins(ALL), list[str]()
        written: dict[Named, list[str]] = {A: [], B: [], Named("c"): []}
        for step in range(60):
            stream = chance.choice([*written])
            lines = [chance.choice("xyz\0\x1b") for _ in range(chance.randrange(3))]
            written[stream] += lines
            shown += twins.feed(stream, lines, step * 0.2)
            if chance.random() < 0.05:
                twins.end(stream)
        shown += twins.drain()
        for stream, lines in written.items():
            told = iter(line[2:] for line in shown if line[0] in (stream.name, ALL))
            assert all(line in told for line in lines), seed  # in this order, among the others' common lines
        assert all(line[0] in "abc*" for line in shown), seed
