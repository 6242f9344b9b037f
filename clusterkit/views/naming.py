"""Names in a sentence: of many tasks or hosts it has the first ones, and how many more there are."""

from __future__ import annotations

from collections.abc import Sequence

from clusterkit.text.spelling import listed

MOST, SHOWN = 32, 8  # of more names than that, so many are shown


def named(items: Sequence[object]) -> str:
    """`a, b and c`; of many the first ones."""
    return listed(few(list(map(str, items))))


def few(names: list[str], what: str = "") -> list[str]:
    """The names; of many the first ones, and how many more there are."""
    return names if len(names) <= MOST else [*names[:SHOWN], f"{len(names) - SHOWN} more {what}".strip()]
