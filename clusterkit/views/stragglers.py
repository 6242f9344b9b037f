"""Lines about stragglers, for the final report and `show`."""

from __future__ import annotations

from collections.abc import Sequence

from clusterkit.text.durations import shown
from clusterkit.text.printable import printable
from clusterkit.words.account import Straggler

MOST = 10  # lines about single stragglers


def straggler_lines(stragglers: Sequence[Straggler]) -> list[str]:
    """Return a line for each task that was slower than its peers; of many tasks, for the first ones."""
    lines = [printable(f"  Straggler: {_sentence(one)}") for one in stragglers[:MOST]]
    return lines + ([f"  Stragglers: {len(stragglers) - MOST} more."] if len(stragglers) > MOST else [])


def _sentence(one: Straggler) -> str:
    when = "" if one.until is None else f" for {shown(one.until - one.at)}"
    return (
        f"{one.task} was about {one.factor:.1f} times as slow as its peers from {one.at:.1f} s on{when}: it {one.why}."
    )
