"""Phrases for sentences: shortened lists of tasks or hosts, failures, and metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from clusterkit.text.printable import printable
from clusterkit.text.spelling import listed
from clusterkit.words.account import Death
from clusterkit.words.model import Task, number_of
from clusterkit.words.outcome import SIGKILL, SIGTERM, Failure

MOST, SHOWN = 32, 8  # a list of more than MOST names is cut to the first SHOWN names
_SENT = (SIGKILL, SIGTERM)  # signals that a fault may send; a message about such a signal need not name the fault
LONGEST = 300  # the maximum number of characters in a description of a death
# A sentence that Keras puts before the actual error.
_WRAPPER = re.compile(r"Exception encountered when calling .*?\.(?:\s+|$)")


def named(items: Sequence[object]) -> str:
    """Join the items: `a, b and c`. A long list is cut to the first items and the number of remaining items."""
    return listed(few(list(map(str, items))))


def few(names: list[str], what: str = "") -> list[str]:
    """Return the names. A long list is cut to its first few names, followed by an entry such as `24 more hosts`."""
    return names if len(names) <= MOST else [*names[:SHOWN], f"{len(names) - SHOWN} more {what}".strip()]


def counted(tasks: Sequence[Task]) -> str:
    """Join the tasks: `chief:0, worker:0 and ps:0`. Many tasks are counted by type instead: `16 workers`."""
    if len(tasks) <= SHOWN:
        return listed(list(map(str, tasks)))
    return listed([number_of(kind, count) for kind, count in Counter(task.type for task in tasks).items()])


def measured(metrics: Mapping[str, float | None], most: int = SHOWN) -> str:
    """Format up to `most` metrics, the loss first: `loss 0.3125, accuracy 0.9`. The text is empty without metrics."""
    ordered = sorted(metrics, key=lambda name: name != "loss")[:most]
    return printable(", ".join(f"{name} {number(metrics[name])}" for name in ordered))


def main_metric(names: Iterable[str]) -> str | None:
    """Return the name `loss` if it is among the names, else the first name; None if there are no names."""
    known = [*names]
    return "loss" if "loss" in known else next(iter(known), None)


def number(value: float | None) -> str:
    """Format the value of a metric, such as `0.3125`."""
    return "not a number" if value is None else f"{value:.4g}"


def failed(failure: Failure) -> str:
    """Describe a failure, such as `worker:1 was killed by SIGKILL (attempt 2)`."""
    return printable(f"{failure.task} {failure.exit} (attempt {failure.attempt}){because(failure)}")


def because(failure: Failure) -> str:
    """Return the origin of a failure, such as ` because worker:1 was paused by fault 1`.

    The text is empty if the origin is unknown, or if the exit already shows the origin.
    """
    by = "" if failure.fault is None else f"fault {failure.fault}"
    if paused := failure.paused:
        return f" because {named(paused)} {'was' if len(paused) == 1 else 'were'} paused{by and f' by {by}'}"
    return f" because of {by}" if by and failure.exit.signal not in _SENT else ""


def plain(error: str) -> str:
    """Return an error's text without final punctuation, and without Keras's sentence about the layer that failed."""
    return _WRAPPER.sub("", error).strip().rstrip(".:")


def same_error(tasks: Iterable[Task], exception: str) -> str:
    """Return a clause such as `worker:0 and worker:1 failed with the same ValueError`."""
    return printable(f"{named(sorted(tasks))} failed with the same {exception.partition(':')[0]}")


def died(death: Death) -> str:
    """Describe a death: `worker:1 was killed by SIGKILL` or, with an exception, `worker:1 failed: ValueError: bad`."""
    how = str(death.exit) if death.exception is None else f"failed: {plain(death.exception)}"
    return f"{death.task} {printable(how)[:LONGEST]}"


def all_failed(failures: Sequence[Failure]) -> list[str]:
    """Describe failures. Failures with the same exit share a line: `worker:1 and worker:2 each … (attempt 2)`."""
    alike: dict[str, list[Failure]] = {}
    for failure in failures:
        alike.setdefault(f"{failure.exit} (attempt {failure.attempt})", []).append(failure)
    return [
        failed(those[0]) if len(those) == 1 else printable(f"{named([one.task for one in those])} each {how}")
        for how, those in alike.items()
    ]
