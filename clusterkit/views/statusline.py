"""The status line: the state of a live run in one line, which stays below the output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from clusterkit.ledger.status import RunPhase, RunStatus, TaskStatus
from clusterkit.text.durations import shown
from clusterkit.text.printable import NO_STYLE, columns, fitted
from clusterkit.views.naming import measured
from clusterkit.views.narrate import waiting
from clusterkit.words.model import TaskState, number_of

BAR = (10, 40)  # columns; the minimum and maximum width of the bar
DROPPED = ("time", "speed", "metric", "restarts", "bar", "steps")  # parts that a narrow terminal drops, in this order

_GAP = " · "
_DONE, _LEFT = "━", "─"
_CYAN, _DIM, _BOLD = "\x1b[36m", "\x1b[2m", "\x1b[1m"


def status_line(status: RunStatus, now: float, width: int, color: bool = False) -> str:
    """Return the line, at most `width` columns wide; empty once the run is over. `now` is wall time."""
    if status.phase is RunPhase.OVER:
        return ""
    if message := _waiting(status, width):
        return f"{_BOLD}{message}{NO_STYLE}" if color else message
    parts = _parts(status, now)
    room = _room(parts, width)
    for name in DROPPED:
        if room >= 0:
            break
        parts.pop(name, None)
        room = _room(parts, width)
    if "bar" in parts:
        parts["bar"] = bar(status.step or 0, status.total or 1, min(BAR[0] + room, BAR[1]), color) + parts["bar"]
    return _GAP.join(parts.values()) if room >= 0 else fitted(parts["tasks"], width)


def _room(parts: Mapping[str, str], width: int) -> int:
    """Return how many columns remain after the parts and the smallest bar; negative if the parts do not fit."""
    return width - columns(_GAP.join(parts.values())) - (BAR[0] if "bar" in parts else 0)


def _waiting(status: RunStatus, width: int) -> str:
    """Return the answer to Ctrl-C while the run waits for tasks to end, else an empty string."""
    tasks = [task for task in status.awaited_tasks if task in status.tasks and status.tasks[task].alive]
    if not tasks:
        return ""
    named = waiting(list(map(str, tasks)), status.grace)
    return named if columns(named) <= width else fitted(waiting([number_of("task", len(tasks))], status.grace), width)


def _parts(status: RunStatus, now: float) -> dict[str, str]:
    """Return the parts of the line by name. The part `bar` is the text after the bar, without the bar."""
    parts = {"tasks": ", ".join(_states(status))}
    step, total, speed = status.step, status.total, status.speed(now)
    if step is not None:
        parts["steps"] = f"step {step}" if total is None else f"step {step:>{len(str(total))}} of {total}"
    if step is not None and total:
        parts["bar"] = f" {100 * step // total:>3}%"
    if speed is not None:
        parts["speed"] = f"{speed:.1f} steps/s"
    if status.metrics:
        parts["metric"] = measured(status.metrics, 1)
    if status.restarts:
        parts["restarts"] = number_of("restart", status.restarts)
    if status.began_at is not None:
        seconds = max(0, int(now - status.began_at))
        parts["time"] = f"{seconds} s" if seconds < 60 else shown(seconds)
    return parts


def _states(status: RunStatus) -> Iterator[str]:
    for state, count in Counter(map(_state, status.tasks.values())).items():
        yield f"{count} {state}"


def _state(status: TaskStatus) -> str:
    done = status.state is TaskState.DOWN and status.last_exit is not None and status.last_exit.ok
    return "done" if done else status.shown_state


def bar(done: int, total: int, width: int, color: bool) -> str:
    """Return a bar of `width` columns; `total` is not 0."""
    full = width * done // total
    left = _LEFT * (width - full)
    return f"{_CYAN}{_DONE * full}{NO_STYLE}{_DIM}{left}{NO_STYLE}" if color else _DONE * full + left
