"""A curve as the page draws it: its points, and gaps where values are missing."""

from __future__ import annotations

from collections.abc import Iterable

from clusterkit.ledger.attempts import Attempt
from clusterkit.page.model.board import Points

SOON = 1.0  # seconds; points at most this far apart are joined, unless the task was interrupted between the points
RARELY = 4.0  # the maximum distance between points that are joined, as a multiple of the usual interval
Drawn = dict[str, list[float | None]]


def drawn(
    points: Points, attempts: Iterable[Attempt], now: float, is_reported: bool = True, usual: float = 0.0
) -> Drawn:
    """Return the points, with a gap (None) after each point that is not joined to the next point.

    In the result, the column `again` is 1 for each point whose step was later computed again. `is_reported` is True for
    values that a task reports, and False for resource usage. Only curves of reported values have gaps for pauses and
    stalls. `usual` is the usual interval between points, in seconds.
    """
    known = list(attempts)
    times, found = points["t"], Drawn(t=[], v=[], low=[], high=[], again=[])
    far = max(SOON, RARELY * usual)
    for number, at in enumerate(times):
        for name, column in points.items():
            found[name].append(column[number])
        found["again"].append(float(is_reported and any(_in_lost(one, at) for one in known)))
        after = times[number + 1] if number + 1 < len(times) else now
        last = number + 1 == len(times)
        if after - at > far or any(_interrupts(one, at, after, is_reported, last) for one in known):
            found["t"].append(at)
            found["again"].append(0.0)
            for name in ("v", "low", "high"):
                found[name].append(None)
    return found


def _in_lost(one: Attempt, at: float) -> bool:
    return one.lost_since is not None and one.lost_since < at <= (float("inf") if one.end is None else one.end)


def _interrupts(one: Attempt, begin: float, end: float, is_reported: bool, last: bool) -> bool:
    """Return whether the attempt began or ended between two points.

    If `is_reported` is True, return True also if the attempt was paused or stalled between the points.
    """
    if begin < one.begin <= end and not last:
        return True
    if one.end is not None and begin <= one.end < end + last:  # the last point may be at the end of the attempt
        return True
    ends = [(stop.begin, end if stop.end is None else stop.end) for stop in one.stops]
    return is_reported and any(max(begin, a) < min(end, b) for a, b in ends)
