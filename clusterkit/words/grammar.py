"""The parser for faults, written `ACTION TARGET [for=10s] [@ TRIGGER]`. All problems of a text are reported at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from clusterkit.text.durations import seconds
from clusterkit.text.spelling import listed
from clusterkit.words.errors import BadJob
from clusterkit.words.faults import (
    AMOUNTS,
    AT_ONCE,
    ON_NETWORK,
    ON_STORAGE,
    SYNONYMS,
    Fault,
    FaultAction,
    Moment,
    Phase,
    Target,
    Trigger,
    Unit,
    no_action,
)
from clusterkit.words.model import TaskType

EXAMPLE = "kill worker:1 @ step=100"
TRIGGERS = "20s, step=100, ready, checkpoint, restart, phase=saving or every=10s"
LATE = 5.0  # seconds; the default delay of hang-start
HOW = ("flip", "truncate")
MOST_STEPS = 10**15  # the maximum number of a step, checkpoint or restart; a float can represent this number exactly
MOST_BYTES = 1e18
_RANDOM = re.compile(r"random\((\d+)\)", re.ASCII)
_BYTES = re.compile(r"(\d+(?:\.\d+)?)(B|KB|MB|GB|kbit|Mbit|Gbit)?", re.ASCII)
_FACTORS = {None: 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "kbit": 125, "Mbit": 125e3, "Gbit": 125e6}
_STEPS = re.compile(r"(\d+)steps?", re.ASCII)
_BARE = re.compile(r"\d+(?:\.\d+)?", re.ASCII)  # a number without a unit


def parse_fault(text: str) -> Fault:
    """Parse the text of one fault. Raises BadJob with all problems of the text."""
    return _FaultParser(text).fault()


class _FaultParser:
    """Parses the text of one fault, and collects the problems of the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._problems: list[str] = []

    def fault(self) -> Fault:
        what, at, when = self._text.partition("@")
        first, *words = what.split() or [""]
        action = self._action(first)
        pairs = [word.split("=", 1) for word in words if "=" in word]
        settings = dict(pairs)
        for name, count in Counter(name for name, _ in pairs).items():
            if count > 1:
                self._wrong(f"{name} is given {count} times.")
        near, bar, far = " ".join(word for word in words if "=" not in word).partition("|")
        targets, others = self._targets(near), self._targets(far) if bar else ()
        trigger = self._trigger(when) if at else None
        if action is None:
            raise BadJob(self._problems)
        self._check_targets(action, near, far, bar)
        fault = Fault(action, targets, others, trigger=trigger, **self._settings(action, settings))
        if self._problems:
            raise BadJob(self._problems)
        return fault

    def _wrong(self, what: str) -> None:
        self._problems.append(f"The fault {self._text.strip()!r}: {what}")

    def _action(self, word: str) -> FaultAction | None:
        if word in set(FaultAction):
            return FaultAction(word)
        rest = self._text.strip().removeprefix(word)
        write = f" Write {f'{SYNONYMS[word.lower()]}{rest}'!r}." if word.lower() in SYNONYMS else ""
        self._wrong(f"{no_action(word)}{write}" if word else f"it begins with an action, as in {EXAMPLE!r}.")
        return None

    def _targets(self, text: str) -> tuple[Target, ...]:
        targets = []
        for name in filter(None, re.split(r"[,\s]+(?![^(]*\))", text.strip())):
            try:
                targets.append(parse_target(name))
            except ValueError as error:
                self._wrong(str(error))
        return tuple(targets)

    def _check_targets(self, action: FaultAction, near: str, far: str, bar: str) -> None:
        if action in ON_STORAGE:
            if near.strip() or bar:
                self._wrong(f"{action} has no target: the job has one checkpoint directory.")
        elif not near.strip():
            self._wrong("it has no target. Name a task (worker:1), some (worker, worker:*, random(2)) or any.")
        if bar and action not in ON_NETWORK | ON_STORAGE:
            self._wrong(f"{action} has no two sides; | is for the network between tasks.")
        elif bar and not far.strip():
            self._wrong("there is nothing after the |.")

    def _settings(self, action: FaultAction, settings: Mapping[str, str]) -> dict[str, Any]:
        fields: dict[str, tuple[str, Callable[[str], object]]] = {}
        if action not in AT_ONCE:
            fields["for"] = ("seconds", seconds)
        amount = AMOUNTS.get(action)
        if amount is not None:
            fields[amount.name] = ("amount", _READ[amount.unit])
        if action is FaultAction.DELAY:
            fields["jitter"] = ("jitter", seconds)
        if action is FaultAction.CORRUPT:
            fields["how"] = ("how", _how)
        values: dict[str, Any] = {} if amount is None else {"amount": amount.usual}
        if action is FaultAction.HANG_START:
            values["seconds"] = LATE
        if action is FaultAction.CORRUPT:
            values["how"] = HOW[0]
        for name, value in settings.items():
            if name not in fields:
                has = f"It takes {', '.join(f'{key}=' for key in fields)}." if fields else "It takes no settings."
                self._wrong(f"{action} has no {name}=. {has}")
                continue
            field, read = fields[name]
            try:
                values[field] = read(value)
            except ValueError as error:
                self._wrong(f"{name}={value}: {error}")
        return values

    def _trigger(self, text: str) -> Trigger | None:
        words = text.split()
        moments = [word for word in words if not word.startswith(("p=", "after="))]
        more = dict(word.split("=", 1) for word in words if word not in moments)
        try:
            if len(moments) != 1 or len(more) + 1 != len(words):
                raise ValueError(f"after the @ goes one trigger: {TRIGGERS}.")
            probability, after = _share(more.get("p", "1")), seconds(more.get("after", 0))
            return replace(_moment(moments[0], probability), after=after)
        except ValueError as error:
            self._wrong(str(error))
            return None


def parse_target(name: str) -> Target:
    """Parse `worker:1`, `worker`, `worker:*`, `any`, `all` or `random(2)`. Raises ValueError."""
    if name in ("any", "all"):
        return Target(count=None if name == "all" else 1)
    if match := _RANDOM.fullmatch(name):
        if (count := _count(match[1])) < 1:
            raise ValueError("random(0) selects no task.")
        return Target(count=count)
    kind, colon, index = name.partition(":")
    if kind not in set(TaskType) or (colon and index != "*" and not (index.isascii() and index.isdecimal())):
        raise ValueError(f"{name!r} is not a target. Write worker:1, worker, worker:*, any, all or random(2).")
    if not colon:
        return Target(TaskType(kind))
    return Target(TaskType(kind), count=None) if index == "*" else Target(TaskType(kind), int(index))


def _moment(word: str, probability: float) -> Trigger:
    name, equals, value = word.partition("=")
    if name == "every":
        return _every(value, probability)
    if name == "step" and value.isascii() and value.isdecimal():
        return Trigger(Moment.STEP, _count(value), False, probability)
    if name == Moment.PHASE:
        return _phase(value, probability)
    if name in (Moment.CHECKPOINT, Moment.RESTART, Moment.READY):
        if equals and (not value.isascii() or not value.isdecimal() or _count(value) < 1):
            raise ValueError(f"{word!r} is not a trigger: {name}=2 is the second {name}.")
        return Trigger(Moment(name), _count(value or "1"), False, probability)
    if equals:
        raise ValueError(f"{word!r} is not a trigger. Write {TRIGGERS}.")
    if _BARE.fullmatch(word):
        step = "" if "." in word else f", or @ step={word} for a training step"
        raise ValueError(f"@ {word} has no unit. Write @ {word}s for a time{step}.")
    return Trigger(Moment.TIME, seconds(word), False, probability)


def _phase(value: str, probability: float) -> Trigger:
    name, colon, number = value.partition(":")
    if name not in set(Phase):
        raise ValueError(f"{name!r} is not a phase. There are {listed(list(Phase))}.")
    if colon and (not number.isascii() or not number.isdecimal() or _count(number) < 1):
        raise ValueError(f"'phase={value}' is not a trigger: phase={name}:2 is the second time.")
    return Trigger(Moment.PHASE, _count(number or "1"), False, probability, phase=Phase(name))


def _every(value: str, probability: float) -> Trigger:
    if value in (Moment.CHECKPOINT, Moment.RESTART):
        return Trigger(Moment(value), 1, True, probability)
    if _BARE.fullmatch(value):
        raise ValueError(f"every={value} has no unit. Write every={value}s or every={value}steps.")
    match = _STEPS.fullmatch(value)
    distance = _count(match[1]) if match else seconds(value)
    if distance < (1 if match else 0.1):
        raise ValueError(f"every={value} is too often: at least 100 ms, or one step.")
    return Trigger(Moment.STEP if match else Moment.TIME, distance, True, probability)


def _count(digits: str) -> int:
    if len(digits) > len(str(MOST_STEPS)) or int(digits) > MOST_STEPS:
        raise ValueError(f"{digits:.20} is more than any job counts. Write {MOST_STEPS} or less.")
    return int(digits)


def _share(text: str) -> float:
    number = text.removesuffix("%")
    try:
        share = float(number) / (100 if number != text else 1)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise ValueError(f"{text!r} is not a share. Write 20% or 0.2; it is more than 0 and at most 1.")
    return share


def _bytes(text: str) -> float:
    match = _BYTES.fullmatch(text)
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{text!r} is not a number of bytes. Write 500KB, 20MB or 10Mbit.")
    number = float(match[1]) * _FACTORS[match[2]]
    if number > MOST_BYTES:
        raise ValueError(f"{text!r:.20} is more than any machine has. Write 500KB, 20MB or 10Mbit.")
    return number


def _how(text: str) -> str:
    if text not in HOW:
        raise ValueError(f"a checkpoint is corrupted by {' or '.join(HOW)}.")
    return text


_READ: Mapping[Unit, Callable[[str], float]] = {Unit.SHARE: _share, Unit.SECONDS: seconds, Unit.BYTES: _bytes}


def parse_all(texts: Iterable[str]) -> tuple[list[Fault], list[str]]:
    """Parse the texts of faults. Return the faults of the valid texts, and the problems of the invalid texts."""
    faults: list[Fault] = []
    problems: list[str] = []
    for text in texts:
        try:
            faults.append(parse_fault(text))
        except BadJob as error:
            problems += error.problems
    return faults, problems
