"""Names in a sentence: of many tasks or hosts it has the first ones, and how many more there are; failures, metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from clusterkit.text.printable import printable
from clusterkit.text.spelling import listed
from clusterkit.words.account import Death
from clusterkit.words.model import Task
from clusterkit.words.outcome import Failure

MOST, SHOWN = 32, 8  # of more names than that, so many are shown
LONGEST = 300  # characters of an exception's line
_WRAPPER = re.compile(r"Exception encountered when calling .*?\.(?:\s+|$)")  # Keras's, before what is wrong


def named(items: Sequence[object]) -> str:
    """`a, b and c`; of many the first ones."""
    return listed(few(list(map(str, items))))


def few(names: list[str], what: str = "") -> list[str]:
    """The names; of many the first ones, and how many more there are."""
    return names if len(names) <= MOST else [*names[:SHOWN], f"{len(names) - SHOWN} more {what}".strip()]


def measured(metrics: Mapping[str, float | None], most: int = SHOWN) -> str:
    """The first metrics, the loss before others: `loss 0.3125, accuracy 0.9`; empty if there are none."""
    ordered = sorted(metrics, key=lambda name: name != "loss")[:most]
    return printable(", ".join(f"{name} {number(metrics[name])}" for name in ordered))


def main_metric(names: Iterable[str]) -> str | None:
    """Return the loss, or without one the first metric; None if there are no metrics."""
    known = [*names]
    return "loss" if "loss" in known else next(iter(known), None)


def number(value: float | None) -> str:
    """`0.3125`."""
    return "not a number" if value is None else f"{value:.4g}"


def failed(failure: Failure) -> str:
    """`worker:1 was killed by SIGKILL (attempt 2)`."""
    return printable(f"{failure.task} {failure.exit} (attempt {failure.attempt})")


def plain(error: str) -> str:
    """What an error says, without a full stop, and without the sentence of Keras that only says where it arose."""
    return _WRAPPER.sub("", error).strip().rstrip(".:")


def same_error(tasks: Iterable[Task], exception: str) -> str:
    """`worker:0 and worker:1 failed with the same ValueError`."""
    return printable(f"{named(sorted(tasks))} failed with the same {exception.partition(':')[0]}")


def died(death: Death) -> str:
    """`worker:1 was killed by SIGKILL`, or the line of its exception: `worker:1 failed: ValueError: bad`."""
    how = str(death.exit) if death.exception is None else f"failed: {plain(death.exception)}"
    return f"{death.task} {printable(how)[:LONGEST]}"


def all_failed(failures: Sequence[Failure]) -> list[str]:
    """The same of many, with one line for those that ended alike: `worker:1 and worker:2 each … (attempt 2)`."""
    alike: dict[str, list[Failure]] = {}
    for failure in failures:
        alike.setdefault(f"{failure.exit} (attempt {failure.attempt})", []).append(failure)
    return [
        failed(those[0]) if len(those) == 1 else printable(f"{named([one.task for one in those])} each {how}")
        for how, those in alike.items()
    ]
