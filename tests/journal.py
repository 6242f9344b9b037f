"""A run's journal as plain JSON, and which fault accounts for which failure in it, for checks of reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args

from clusterkit.words.events import Decided

Line = dict[str, Any]  # of the journal; `m` in seconds since the run began
SOON = 15.0
AT_ONCE = ("kill", "term", "reset", "corrupt-checkpoint")
SIGNALS = {"kill": 9, "term": 15, "stop": 19}
DECIDED = {kind.__name__ for kind in get_args(Decided)}
NETWORK = ("partition", "delay", "loss", "rate", "reset")
PEER_GONE = re.compile(
    r"UnavailableError|AbortedError|CancelledError|DeadlineExceededError|Connection (?:reset|refused)|Socket closed"
    r"|failed to connect to all addresses|[Hh]eartbeat timeout|coordination service|CoordinationService"
)


class JournalLines:
    """The lines of a journal, in which every answer is looked up anew."""

    def __init__(self, job: dict[str, Any], journal: Iterable[Line]) -> None:
        lines = list(journal)
        self.counts, self.scope = job["counts"], job["restart"]["scope"]
        self.servers = ("ps", "worker") if self.counts.get("ps") else ()
        self.end = len(lines)
        self.lines = list(_placed(lines, lines[0]["m"]))
        self.settled = [  # the places at which all is decided that follows from an event
            place for place, after in enumerate([*lines[1:], {"event": ""}]) if after["event"] not in DECIDED
        ]
        self.faults = {line["number"]: line for line in self.of("FaultInjected")}
        self.accounted: dict[tuple[str, int], int] = {}  # failed attempt to the fault that accounts for it
        for line in self.of("Failed"):
            self._blame(line)

    def of(self, *kinds: str, where: Callable[[Line], bool] = lambda line: True) -> list[Line]:
        """The journal's lines of these kinds."""
        return [line for line in self.lines if line["event"] in kinds and where(line)]

    def trains(self, task: str) -> bool:
        """Whether the task makes steps."""
        kind = task.partition(":")[0]
        return kind in ("chief", "worker") and kind not in self.servers

    def lives(self, task: str, place: int) -> bool:
        """Whether it runs at a place in the journal and was not told to end, or has ended well by then."""
        *_, last = self.of("Changed", where=lambda line: line["task"] == task and line["place"] < place)
        ends = self.of("Exited", where=lambda line: key_of(line) == key_of(last) and line["place"] < place)
        return last["state"] == "running" or any(line["exit"]["code"] == 0 for line in ends)

    def halts(self, failure: Line) -> bool:
        """Whether there are no steps after a failure until what it takes along has started again."""
        task = failure["task"]
        if self.scope == "task" or task.startswith("evaluator"):
            return self.trains(task)
        alone = self.servers or sum(self.counts.get(kind, 0) for kind in ("chief", "worker")) == 1
        return self.scope == "job" or not alone or not task.startswith("worker") or self.trains(task)

    def exited(self, failure: Line) -> float:
        """When the attempt that failed ended."""
        ends = self.of("Exited", "SpawnFailed", where=lambda line: key_of(line) == key_of(failure))
        return float(ends[0]["m"])

    def healed(self, fault: Line) -> list[Line]:
        """The heal of a fault, if there is one."""
        return self.of("FaultHealed", where=lambda line: line["number"] == fault["number"])

    def done(self, fault: Line, place: int) -> bool:
        """Whether it was injected, as far as was known at a place in the journal."""
        took = self.of("FaultTook", where=lambda line: line["number"] == fault["number"] and line["place"] < place)
        return not took or any(line["done"] for line in took)

    def _blame(self, line: Line) -> None:
        failure = line["failure"]
        at = self.exited(failure)
        place = line["place"]
        if not self._spawned(failure):
            return
        known = [f for f in self.faults.values() if f["m"] <= at and f["place"] < place and self.done(f, place)]
        known.sort(key=lambda fault: fault["action"] == "term")
        newest = sorted(known, key=lambda fault: -fault["number"])
        for rule in (self._kills, self._weakens, self._starves, self._spoils):
            for fault in known if rule == self._kills else newest:
                if rule(fault, failure, at, place):
                    if self.done(fault, self.end):
                        self.accounted[key_of(failure)] = fault["number"]
                    return

    def _spawned(self, failure: Line) -> list[Line]:
        return self.of("Spawned", where=lambda line: key_of(line) == key_of(failure))

    def _acts_on(self, fault: Line, failure: Line) -> bool:
        """Whether the fault hit that attempt: the one that ran then, or the first one that did after it."""
        task, signal = failure["task"], SIGNALS.get(fault["action"])
        ended = [*self.of("Exited", where=lambda line: key_of(line) == key_of(failure)), {"reached": []}][0]
        if task not in fault["tasks"] or (signal is not None and signal not in ended["reached"]):
            return False
        states = self.of("Changed", where=lambda line: line["task"] == task)
        until = [line["place"] for line in self.healed(fault)] or [self.end]
        for state, after in zip(states, [*states[1:], {"place": self.end}], strict=True):
            first, last = max(state["place"], fault["place"]), min(after["place"], until[0])
            if state["state"] == "running" and any(first <= place < last for place in self.settled):
                return bool(state["attempt"] == failure["attempt"])
        return False

    def _shows(self, fault: Line, at: float, place: int) -> bool:
        healed = [line["m"] for line in self.healed(fault) if line["place"] < place]
        over = fault["m"] if fault["action"] in AT_ONCE else healed[0] if healed else at
        return bool(at <= over + SOON)

    def _kills(self, fault: Line, failure: Line, at: float, place: int) -> bool:
        exit_ = failure["exit"]
        if fault["action"] not in ("kill", "term") or exit_["asked"] is not None or exit_["out_of_memory"]:
            return False
        return (exit_["signal"] == 9 or fault["action"] == "term") and self._acts_on(fault, failure)

    def _weakens(self, fault: Line, failure: Line, at: float, place: int) -> bool:
        if fault["action"] in ("stop", "memory"):
            return self._shows(fault, at, place) and self._acts_on(fault, failure)
        healed = [line["m"] for line in self.healed(fault) if line["place"] < place]
        slowed = fault["action"] == "slow" and self._spawned(failure)[0]["m"] <= min(healed, default=at)
        hit = failure["task"] in fault["tasks"] + fault["others"] and self._shows(fault, at, place)
        return hit and (slowed or fault["action"] in NETWORK)

    def _starves(self, fault: Line, failure: Line, at: float, place: int) -> bool:
        alive = fault["action"] in (*NETWORK, "stop", "slow", "hang-start")
        return alive and self._shows(fault, at, place) and _says_that_a_peer_is_gone(failure)

    def _spoils(self, fault: Line, failure: Line, at: float, place: int) -> bool:
        if fault["action"] == "corrupt-checkpoint":
            return bool(self._spawned(failure)[0]["m"] > fault["m"]) or failure["task"].startswith("evaluator")
        return fault["action"] == "disk-full" and self._shows(fault, at, place)


def key_of(line: Line) -> tuple[str, int]:
    """Task and attempt."""
    return line["task"], line["attempt"]


def _placed(lines: list[Line], began: float) -> Iterator[Line]:
    """Each line with its place and the seconds since the run began, without late reports of attempts that are over."""
    newest: dict[str, int] = {}
    for place, line in enumerate(lines):
        if line["event"] == "Changed":
            newest[line["task"]] = max(line["attempt"], newest.get(line["task"], 0))
        if line["event"] not in ("Progressed", "Resumed") or line["attempt"] >= newest.get(line["task"], 0):
            yield {**line, "m": line["m"] - began, "place": place}


def _says_that_a_peer_is_gone(failure: Line) -> bool:
    if failure["exit"]["signal"] is not None:
        return bool(failure["exit"]["signal"] == 6)
    if failure["exit"]["code"] in (None, 42):
        return False
    said = failure["tail"] if failure["exception"] is None else [failure["exception"]]
    return any(PEER_GONE.search(line) for line in said)
