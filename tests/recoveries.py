"""The recovery report of a finished run, worked out once more from its journal, by other means than the fold's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.journal import AT_ONCE, JournalLines, Line, key_of

LIFE = ("Ready", "Progressed", "Resumed", "Checkpointed")


def check_report(run: Path) -> dict[str, Any]:
    """Hold result.json against the journal of a run that is over; return the recoveries and faults of both."""
    journal = [json.loads(line) for line in (run / "journal.jsonl").read_bytes().splitlines()]
    job = json.loads((run / "job.json").read_text())["job"]
    told = json.loads((run / "result.json").read_text())
    expected = Account(job, journal).report()
    for key in ("recoveries", "faults"):
        check_same(told[key], expected[key], key)
    check_split(told)
    return expected


def check_split(result: dict[str, Any]) -> None:
    """Hold the split of the run's time against its recoveries: what was lost, and how long training stood still.

    A recovery begins with its fault at the earliest, and with its first death at the latest. Where a task was paused or
    training stalled meanwhile, that counts as such.
    """
    parts, recoveries = result["goodput"]["parts"], result["recoveries"]
    assert min(parts.values()) >= 0
    assert abs(sum(parts.values()) - result["duration"]) < 0.01
    stood = [one for one in recoveries if one["training"] and one["ended"] is not None]
    least = _covered([(one["at"] if one["cause"] is None else one["cause"]["at"], one["ended"]) for one in stood])
    most = _covered([(one["at"], result["duration"] if one["ended"] is None else one["ended"]) for one in recoveries])
    assert least - parts["stopped"] - parts["stalled"] - 0.5 < parts["recovering"] < most + 0.5, (parts, recoveries)
    assert bool(parts["lost"]) >= any(one["lost"] for one in stood), (parts, recoveries)
    assert bool(parts["lost"]) <= bool(stood), (parts, recoveries)


def _covered(spans: list[tuple[float, float]]) -> float:
    """The seconds that these spans cover together."""
    covered = end = 0.0
    for begin, until in sorted(spans):
        covered += max(0.0, until - max(begin, end))
        end = max(end, until)
    return covered


def check_same(told: Any, expected: Any, where: str) -> None:
    """Fail at the first value that differs, and say where."""
    if isinstance(expected, dict):
        assert told.keys() == expected.keys(), where
        for key, value in expected.items():
            check_same(told[key], value, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(told) == len(expected), f"{where}: {told} is not {expected}"
        for number, (one, other) in enumerate(zip(told, expected, strict=True)):
            check_same(one, other, f"{where}[{number}]")
    elif isinstance(expected, float):
        assert told is not None, f"{where}: there is no {expected}"
        assert abs(told - expected) < 1e-6, f"{where}: {told} is not {expected}"
    else:
        assert told == expected, f"{where}: {told} is not {expected}"


class Account(JournalLines):
    """Looks each answer up in the whole journal."""

    def report(self) -> dict[str, Any]:
        """Both lists, as result.json has them."""
        groups = sorted(self._groups(), key=lambda group: group[2])
        recoveries, begun = [], set[int]()
        for deaths, plan, _ in groups:
            recoveries.append(self._recovery(deaths, plan, begun))
        return {"recoveries": recoveries, "faults": [self._fault(line) for line in self.faults.values()]}

    def _groups(self) -> list[tuple[list[Line], Line | None, int]]:
        """The failures that go together, cause first, the plan that mends them, and the place of the first of both."""
        plans = self.of("RestartPlanned")
        (end,) = self.of("Finished")[:1] or [{"result": {"cause": None, "same": [], "collateral": []}}]
        named = {plan["place"]: _failures(plan) for plan in plans}
        given_up = set(map(key_of, _failures(end["result"])))
        final = [plan for plan in plans if not any(self._replaces(other, plan) for other in plans)]
        final = [plan for plan in final if not given_up & set(map(key_of, named[plan["place"]]))]
        groups, used = [], set[tuple[str, int]]()
        for plan in final:
            before = [line["failure"] for line in self.of("Failed") if self._is_mended(line, plan)]
            before += [f for other in plans if self._replaces(plan, other) for f in named[other["place"]]]
            deaths = _distinct([*named[plan["place"]], *before])
            used |= set(map(key_of, deaths))
            first = min([self._failed_at(death) for death in deaths], default=plan["place"])
            groups.append((deaths, plan, min(first, plan["place"])))
        left = [line["failure"] for line in self.of("Failed") if key_of(line["failure"]) not in used]
        last = [f for f in _failures(end["result"]) if key_of(f) not in used]
        together = [last] if last else []
        alone = [[f] for f in left if key_of(f) not in set(map(key_of, last))]
        return groups + [(deaths, None, min(map(self._failed_at, deaths))) for deaths in [*together, *alone]]

    def _failed_at(self, failure: Line) -> int:
        found = [line["place"] for line in self.of("Failed") if key_of(line["failure"]) == key_of(failure)]
        return found[0] if found else self.end

    def _replaces(self, later: Line, plan: Line) -> bool:
        """Whether a plan was overtaken by a later one, before anything of it was started."""
        if later["place"] <= plan["place"]:
            return False
        if set(map(key_of, _failures(later))) & set(map(key_of, _failures(plan))):
            return True
        return later["cause"] is None and self._waits(plan["tasks"], plan["place"], later)

    def _is_mended(self, failed: Line, plan: Line) -> bool:
        """Whether a restart that was asked for takes in a failure that nothing had been started for."""
        if plan["cause"] is not None or failed["place"] > plan["place"]:
            return False
        return self._waits([failed["failure"]["task"]], failed["place"], plan)

    def _waits(self, tasks: list[str], place: int, later: Line) -> bool:
        between = [line for line in self.of("Spawned") if place < line["place"] < later["place"]]
        return bool({*tasks} & {*later["tasks"]}) and not any(line["task"] in tasks for line in between)

    def _recovery(self, deaths: list[Line], plan: Line | None, begun: set[int]) -> dict[str, Any]:
        told = [self._death(death) for death in deaths]
        same = self._same(plan)
        faults = sorted({death["fault"] for death in told if death["fault"] is not None})
        starts = [death["at"] for death in told] or [plan["m"] if plan else 0.0]
        at = min([*starts, *(self.faults[number]["m"] for number in faults if number not in begun)])
        begun |= set(faults)
        detected = [self._detected(death, plan) for death in deaths]
        returns = self._returns(plan) if plan else []
        needed = [one["task"] for one in returns if self.trains(one["task"]) or one["task"].startswith("ps")]
        trainers = {one["task"]: one["attempt"] for one in returns if self.trains(one["task"])}
        step, resumed = self._first_step(trainers, needed)
        ups = [self._up(one["task"], one["attempt"], step if one["task"] in needed else None) for one in returns]
        up = max((one for one in ups if one), key=lambda one: one["place"]) if ups and all(ups) else None
        for one, line in zip(returns, ups, strict=True):
            one["up"] = _when(line)
        if trainers:
            last = self._last_step(trainers)
            origin = resumed["step"] if resumed else step["step"] - 1 if step else None
            course = {"went_on": False, "first_step": step["m"] if step else None}
            lost = None if origin is None else max(0, (last or 0) - origin)
        elif plan is None and any(map(self.halts, deaths)):
            course, last, lost = {"went_on": False, "first_step": None}, None, None
        else:
            since = min([plan["place"] if plan else self.end, *map(self._failed_at, deaths)])
            course, last = self._course(since, up), None
            lost = 0 if plan or course["went_on"] else None
        return {
            "at": at, "asked": plan is not None and plan["cause"] is None, "cause": told[0] if told else None,
            "files": [] if plan is None else plan["files"],
            "host": None if plan is None else plan["host"],
            "collateral": [one for one in told[1:] if key_of(one) not in same],
            "same": [one for one in told[1:] if key_of(one) in same], "allocation": None,
            "faults": faults, "detected": min(detected, default=None),
            "planned": plan["m"] if plan else None, "returns": returns, "training": bool(trainers), **course,
            "last_step": last, "resumed_step": resumed["step"] if resumed else None,
            "checkpoint": resumed["path"] if resumed else None, "lost": lost,
            "ended": course["first_step"] if trainers else up["m"] if up else None,
            **self._left(deaths),
        }  # fmt: skip

    def _left(self, deaths: list[Line]) -> dict[str, Any]:
        """The workers that were given up for one of these deaths, and how many were left."""
        found = [line for line in self.of("Shrunk") if key_of(line["cause"]) in set(map(key_of, deaths))]
        if not found:
            return {"given_up": [], "left": None}
        return {"given_up": found[0]["tasks"], "left": len(found[0]["left"])}

    def _same(self, plan: Line | None) -> set[tuple[str, int]]:
        """The failures that were as the cause; of a request, those of the plans that it overtook."""
        if plan is None:
            said = [line["result"] for line in self.of("Finished")]
        elif plan["cause"] is not None:
            said = [plan]
        else:
            said = [other for other in self.of("RestartPlanned") if self._replaces(plan, other)]
        return {key_of(failure) for line in said for failure in line["same"]}

    def _death(self, failure: Line) -> dict[str, Any]:
        fault = self.accounted.get(key_of(failure))
        known = {name: failure[name] for name in ("task", "attempt", "exit", "exception")}
        return {"at": self.exited(failure), "fault": fault, "requested": self._requested(failure)} | known

    def _requested(self, failure: Line) -> bool:
        """Whether somebody requested the signal that ended the attempt, while it ran."""
        key, signal = key_of(failure), failure["exit"]["signal"]
        begun = [line["place"] for line in self.of("Spawned") if key_of(line) == key]
        ended = [line["place"] for line in self.of("Exited") if key_of(line) == key]
        kills = [line for line in self.of("Requested") if line["verb"] == "kill" and line["signal"] == signal]
        kills = [line for line in kills if not line["tasks"] or key[0] in line["tasks"]]
        return any(begun and begun[0] < one["place"] < min(ended, default=self.end) for one in kills)

    def _detected(self, failure: Line, plan: Line | None) -> float:
        found = [line for line in self.of("Failed") if key_of(line["failure"]) == key_of(failure)]
        if not found:
            return float(plan["m"]) if plan else 0.0
        place = found[0]["place"]
        steps = [one["place"] for one in self.of("Progressed") if one["place"] < place and self.trains(one["task"])]
        stalls = [m for m, at in self._stalls() if max(steps, default=0) < at < place]
        return float(stalls[0] if stalls and failure["exit"]["asked"] == "ended for its stall" else found[0]["m"])

    def _stalls(self) -> list[tuple[float, int]]:
        return [(line["m"], line["place"]) for line in self.of("Stalled")]

    def _returns(self, plan: Line) -> list[dict[str, Any]]:
        found = []
        for task in plan["tasks"]:
            old = self.of("Changed", where=lambda one, who=task: one["task"] == who)  # type: ignore[misc]
            new = (task, max(line["attempt"] for line in old if line["place"] < plan["place"]) + 1)
            spawned = self.of("Spawned", where=lambda one, key=new: key_of(one) == key)  # type: ignore[misc]
            found.append({"task": task, "attempt": new[1], "spawned": _when(_first(spawned))})
        return found

    def _up(self, task: str, attempt: int, step: Line | None) -> Line | None:
        """When it was heard of, at the latest with a step that could not be made without it."""
        told = self.of(*LIFE, where=lambda one: one["task"] == task and one["attempt"] >= attempt)[:1]
        return min([*told, *([step] if step else [])], key=lambda one: one["place"], default=None)

    def _first_step(self, trainers: dict[str, int], needed: list[str]) -> tuple[Line | None, Line | None]:
        """The first step beyond the one that they resumed from, or beyond 0, and that resumption."""
        resumed: Line | None = None
        for line in self.of(
            "Resumed", "Progressed", where=lambda one: one["attempt"] >= trainers.get(one["task"], 1e9)
        ):
            if line["event"] == "Progressed":
                live = all(self.lives(task, line["place"]) for task in needed)
                if live and line["step"] > (0 if resumed is None else resumed["step"]):
                    return line, resumed
            is_origin = line["event"] == "Resumed" and self.resumes(line)
            if is_origin and (resumed is None or _counts_more(line, resumed)):
                resumed = line
        return None, resumed

    def resumes(self, line: Line) -> bool:
        """Whether it says from where the attempt goes on: what begins after a restored checkpoint does not."""
        if line["path"] is not None:
            return True
        same = self.of("Resumed", where=lambda one: key_of(one) == key_of(line) and one["path"] is not None)
        return all(one["place"] > line["place"] for one in same)

    def _last_step(self, trainers: dict[str, int]) -> int | None:
        steps = []
        for task, attempt in trainers.items():
            starts = [line["attempt"] for line in self.of("Spawned") if line["task"] == task]
            if attempt in starts:  # the one before it may never have started
                before = max((one for one in starts if one < attempt), default=0)
                old = self.of("Progressed", "Resumed", where=lambda one, key=(task, before): key_of(one) == key)  # type: ignore[misc]
                old = [line for line in old if line["event"] == "Progressed" or self.resumes(line)]
                steps += [line["step"] for line in old[-1:]]
        return max(steps, default=None)

    def _course(self, place: int, end: Line | None) -> dict[str, Any]:
        """Two different steps between a place in the journal and its end, or the first step after that."""
        until = end["place"] if end else self.end
        steps = self.of("Progressed", where=lambda line: line["place"] > place and self.trains(line["task"]))
        steps = [line for line in steps if self.lives(line["task"], line["place"])]
        before = [line["step"] for line in steps if line["place"] < until]
        if before and max(before) > before[0]:
            return {"went_on": True, "first_step": None}
        return {"went_on": False, "first_step": _when(_first([line for line in steps if line["place"] > until]))}

    def _fault(self, line: Line) -> dict[str, Any]:
        healed = self.healed(line)
        deaths = [one for one in self.of("Failed") if self.accounted.get(key_of(one["failure"])) == line["number"]]
        shows = [self._detected(one["failure"], None) for one in deaths]
        if line["action"] not in AT_ONCE and self.done(line, self.end):
            last = healed[0]["place"] if healed else self.end
            shows += [m for m, place in self._stalls() if line["place"] < place < last]
        took = self.of("FaultTook", where=lambda one: one["number"] == line["number"])
        course = self._course(line["place"], _first(healed))
        return {
            **{key: line[key] for key in ("number", "fault", "action", "tasks", "others", "seconds", "step")},
            "injected": line["m"], "detail": "; ".join(one["detail"] for one in took),
            "done": self.done(line, self.end),
            "healed": healed[0]["m"] if healed else None, "why": healed[0]["why"] if healed else "",
            "detected": min(shows, default=None), "died": [one["failure"]["task"] for one in deaths],
            **({"went_on": False, "first_step": None} if deaths else course),
        }  # fmt: skip


def _failures(line: Line) -> list[Line]:
    return [*([line["cause"]] if line["cause"] else []), *line["same"], *line["collateral"]]


def _distinct(failures: list[Line]) -> list[Line]:
    return list({key_of(failure): failure for failure in failures}.values())


def _first(lines: list[Line]) -> Line | None:
    return lines[0] if lines else None


def _when(line: Line | None) -> float | None:
    return None if line is None else line["m"]


def _counts_more(line: Line, than: Line) -> bool:
    if line["attempt"] != than["attempt"]:
        return bool(line["attempt"] > than["attempt"])
    if line["task"] == than["task"]:
        return bool(line["step"] > than["step"])
    kinds = ("chief", "worker")
    ranks = [(kinds.index(kind), int(index)) for kind, _, index in (one["task"].partition(":") for one in (line, than))]
    return ranks[0] < ranks[1]
