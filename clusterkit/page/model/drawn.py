"""A curve as the page draws it: its points, and gaps where values are missing."""

from __future__ import annotations

from collections.abc import Iterable

from clusterkit.ledger.attempts import Attempt
from clusterkit.page.model.board import Points

SOON = 1.0  # seconds; points that are this close are joined, unless the task was interrupted between them
RARELY = 4.0  # the maximum distance of joined points, as a multiple of the usual interval
Drawn = dict[str, list[float | None]]


def drawn(points: Points, attempts: Iterable[Attempt], now: float, works: bool = True, usual: float = 0.0) -> Drawn:
    """Return the points, with a gap (None) after each point that is not joined to the next point.

    `again` in the result is 1 for points whose steps were later computed again. If `works` is set, as for reported
    values but not for resource usage, pauses and stalls are gaps. `usual` is the usual interval of points in seconds.
    """
    known = list(attempts)
    times, found = points["t"], Drawn(t=[], v=[], low=[], high=[], again=[])
    far = max(SOON, RARELY * usual)
    for number, at in enumerate(times):
        for name, column in points.items():
            found[name].append(column[number])
        found["again"].append(float(works and any(_in_lost(one, at) for one in known)))
        after = times[number + 1] if number + 1 < len(times) else now
        last = number + 1 == len(times)
        if after - at > far or any(_interrupts(one, at, after, works, last) for one in known):
            found["t"].append(at)
            found["again"].append(0.0)
            for name in ("v", "low", "high"):
                found[name].append(None)
    return found


def _in_lost(one: Attempt, at: float) -> bool:
    return one.lost_since is not None and one.lost_since < at <= (float("inf") if one.end is None else one.end)


def _interrupts(one: Attempt, begin: float, end: float, works: bool, last: bool) -> bool:
    """Return whether the attempt began or ended between two points or, if `works`, was paused or stalled meanwhile."""
    if begin < one.begin <= end and not last:
        return True
    if one.end is not None and begin <= one.end < end + last:  # the last point may coincide with the end
        return True
    ends = [(stop.begin, end if stop.end is None else stop.end) for stop in one.stops]
    return works and any(max(begin, a) < min(end, b) for a, b in ends)
