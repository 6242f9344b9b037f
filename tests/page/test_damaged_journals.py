"""Journals with lines that are missing, moved or changed: what is folded of them stays a report, never an error."""

from __future__ import annotations

import random
from typing import Any

import pytest

from clusterkit.ledger.ledger import Ledger
from clusterkit.page.journal import Happening
from clusterkit.store.journal import JournalLine
from clusterkit.words import wire
from tests.page.histories import WALL, model_of, random_history, shown

HISTORIES = 25  # of each kind of damage
NUMBERS = (0, -1, 1, 2, 7, 2**70)
Line = dict[str, Any]


def without_some(lines: list[Line], dice: random.Random) -> list[Line]:
    """The disk was full, or the file was cut."""
    return [line for line in lines if dice.random() > 0.08]


def in_disorder(lines: list[Line], dice: random.Random) -> list[Line]:
    """Somebody has joined two files."""
    some = without_some(lines, dice)
    for _ in range(20):
        one, other = dice.randrange(len(some)), dice.randrange(len(some))
        some[one], some[other] = some[other], some[one]
    return some


def changed(lines: list[Line], dice: random.Random) -> list[Line]:
    """Numbers, truths and tasks are others."""

    def change(value: Any) -> Any:
        match value:
            case dict():
                return {key: change(each) for key, each in value.items()}
            case list():
                return list(map(change, value))
            case _ if dice.random() > 0.04:
                return value
            case bool():
                return not value
            case int():
                return dice.choice(NUMBERS)
            case float():
                return dice.choice((0.0, -5.0, 1e9, value + 3))
            case str() if ":" in value:
                return dice.choice(("chief:0", "worker:0", "worker:1", "ps:0", "evaluator:0", "worker:99"))
            case _:
                return value

    return list(map(change, in_disorder(lines, dice)))


@pytest.mark.slow
@pytest.mark.parametrize("damage", [without_some, in_disorder, changed])
def test_what_is_left_of_a_journal_is_told(damage: Any) -> None:
    """On the page, and in the account of the run."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    for number in range(HISTORIES):
        job, happenings = random_history(seed + number)
        lines = [{"m": one.clock, "t": one.wall, **wire.encode_event(one.event)} for one in happenings]
        known = [known for line in damage(lines, dice) if (known := JournalLine(0, line).event("m")) is not None]
        left = [Happening(place, clock, event, WALL + clock) for place, (clock, event) in enumerate(known, 1)]
        assert "run" in shown(model_of(job, left))
        fold = Ledger(job)
        for one in left:
            fold.add(one.clock, one.event)
        assert fold.account(left[-1].clock).goodput is not None
