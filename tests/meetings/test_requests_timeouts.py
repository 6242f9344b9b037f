"""Each request, made while each timeout runs: the table says whether the timeout still means what it meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from clusterkit.words import events as ev
from clusterkit.words.actions import Inspect
from clusterkit.words.events import Verb
from clusterkit.words.job import Limits, RestartRules
from clusterkit.words.model import TaskState
from clusterkit.words.outcome import Asked, RunState
from tests.histories import SIGKILL, SIGTERM, History, job, task

# runs    the timeout expires when it would have expired
# waits   it is suspended until the request is taken back, and expires then
# anew    its time begins again
# now     what it waited for happens at once
# ends    it no longer applies
# -       the request is refused, and the timeout runs
TABLE = """
            startup  warning  stall  early  unreported  job    grace  finish  evaluator  backoff  collateral
pause       waits    waits    waits  waits  waits       runs   -      runs    runs       -        runs
stop        waits    waits    waits  waits  waits       runs   runs   runs    runs       -        runs
ctrl-z      waits    waits    waits  waits  waits       waits  -      -       -          runs     runs
debugger    waits    waits    waits  waits  waits       waits  runs   waits   waits      runs     runs
fault-stop  runs     runs     runs   runs   runs        runs   -      -       -          runs     runs
stacks      runs     runs     runs   runs   runs        runs   runs   runs    runs       -        runs
profile     runs     runs     runs   runs   runs        runs   -      runs    runs       -        runs
heal        runs     runs     runs   runs   runs        runs   runs   runs    runs       runs     runs
restart     anew     anew     anew   ends   anew        runs   -      -       -          now      now
kill        anew     anew     anew   ends   anew        runs   runs   ends    ends       -        now
term        anew     anew     anew   ends   anew        runs   runs   ends    ends       -        now
down        ends     ends     ends   ends   ends        ends   runs   now     now        ends     ends
"""


@dataclass
class Scene:
    """A history in which a timeout of so many seconds has just begun."""

    run: History
    seconds: float
    expired: Callable[[], bool]
    target: str = "worker:1"  # the task that a request is about


def _gang(limits: Limits, steps: bool = True, **options: bool) -> History:
    run = History(job(workers=2, limits=limits), **options).begin()  # type: ignore[arg-type]
    for name in ("worker:0", "worker:1"):
        if steps:
            run.progresses(name, 1)
    return run


def startup() -> Scene:
    """The tasks have opened no port yet."""
    run = _gang(Limits(startup=60, stall_warning=0), steps=False, listening=False)
    return Scene(run, 60, lambda: run.over and "did not open their ports" in run.result.reason)


def warning() -> Scene:
    """Nobody makes steps, and only a warning is wanted."""
    run = _gang(Limits(startup=0, stall_warning=30))
    return Scene(run, 30, lambda: bool(run.decided(ev.Stalled)))


def stall() -> Scene:
    """Nobody makes steps, and the stuck task is to be killed."""
    run = _gang(Limits(startup=0, stall_warning=0, stall=30))
    return Scene(run, 30, lambda: any(one.exit is not None and one.exit.asked is Asked.STALL for one in _ends(run)))


def early() -> Scene:
    """A worker has left early, and the other one may wait for it."""
    run = _gang(Limits(startup=0, stall_warning=30))
    run.vitals["worker:0"] = ev.Vitals(1, True, "S", "runs its own code", own=True)
    run.exits("worker:1", code=0)
    looks = [Inspect(ev.Look.STALL, "worker:1 has exited with code 0, and no step was made since")]
    return Scene(run, 30, lambda: [one for one in run.asked(Inspect) if "has exited" in one.why] == looks, "worker:0")


def unreported() -> Scene:
    """An option waits for steps, and nobody reports any."""
    run = _gang(Limits(startup=0, stall_warning=0, stall=1000), steps=False)
    return Scene(run, 60, lambda: any("No task has reported a step" in text for text in run.warnings))


def limit() -> Scene:
    """The job has a time limit, and makes steps."""
    run = _gang(Limits(startup=0, stall_warning=0, job=100))
    return Scene(run, 100, lambda: run.over and run.result.state is RunState.TIMED_OUT)


def grace() -> Scene:
    """The run is being ended, and no task obeys."""
    run = _gang(Limits(startup=0, stall_warning=0, grace=20))
    run.stubborn |= {"worker:0", "worker:1"}
    run.send(ev.Requested(90, Verb.DOWN))
    return Scene(run, 20, lambda: (20.0, "worker:0", SIGKILL) in run.signals())


def finish() -> Scene:
    """The leader has succeeded, and its peer has some time left."""
    run = _gang(Limits(startup=0, stall_warning=0, finish=20, servers=0))
    run.exits("worker:0", code=0)
    return Scene(run, 20, lambda: _asked_to_end(run, "worker:1"))


def evaluator() -> Scene:
    """The leader has succeeded, and the evaluator may finish its last evaluation."""
    run = History(job(workers=1, evaluator=1, limits=Limits(startup=0, stall_warning=0, evaluator=40))).begin()
    run.checkpoints("worker:0", 5)
    run.exits("worker:0", code=0)
    return Scene(run, 40, lambda: _asked_to_end(run, "evaluator:0"), "evaluator:0")


def backoff() -> Scene:
    """A worker failed before any step, and starts again after a while."""
    rules = RestartRules(backoff=16)
    run = History(job(workers=2, ps=1, restart=rules, limits=Limits(startup=0, stall_warning=0))).begin()
    run.exits("worker:1", code=3)
    run.after(0)
    return Scene(run, 16 * 1.1, lambda: run.attempts["worker:1"] == 2)


def collateral() -> Scene:
    """A worker failed, and the gang restarts once it is clear who was the cause."""
    run = _gang(Limits(startup=0, stall_warning=0, collateral=8))
    run.after(30)
    run.exits("worker:1", code=3)
    return Scene(run, 8, lambda: run.attempts == {"worker:0": 2, "worker:1": 2}, "worker:0")


SCENES = {
    "startup": startup,
    "warning": warning,
    "stall": stall,
    "early": early,
    "unreported": unreported,
    "job": limit,
    "grace": grace,
    "finish": finish,
    "evaluator": evaluator,
    "backoff": backoff,
    "collateral": collateral,
}
REQUESTS: dict[str, dict[str, Any]] = {
    "pause": {"verb": Verb.PAUSE},
    "stop": {"verb": Verb.KILL, "signal": 19},
    "ctrl-z": {"verb": Verb.PAUSE, "terminal": True},
    "fault-stop": {"verb": Verb.FAULT},
    "stacks": {"verb": Verb.STACKS},
    "profile": {"verb": Verb.PROFILE},
    "heal": {"verb": Verb.HEAL},
    "restart": {"verb": Verb.RESTART},
    "kill": {"verb": Verb.KILL, "signal": SIGKILL},
    "term": {"verb": Verb.KILL, "signal": SIGTERM},
    "down": {"verb": Verb.DOWN},
}
TAKEN_BACK: dict[str, dict[str, Any]] = {
    "pause": {"verb": Verb.UNPAUSE},
    "stop": {"verb": Verb.UNPAUSE},
    "ctrl-z": {"verb": Verb.UNPAUSE, "terminal": True},
}


def _ends(run: History) -> list[ev.AttemptEnded]:
    return run.decided(ev.AttemptEnded)


def _asked_to_end(run: History, name: str) -> bool:
    return any(one.task == task(name) and one.state is TaskState.STOPPING for one in run.decided(ev.Changed))


def _request(scene: Scene, name: str) -> None:
    target = scene.target
    if name == "debugger":
        scene.run.send(ev.InDebugger(task(target), scene.run.attempts[target], "train.py", 31, "step"))
    elif name == "fault-stop":
        scene.run.send(ev.Requested(7, Verb.FAULT, fault=f"stop {target}"))
    else:
        tasks = () if name in ("ctrl-z", "heal", "down") else (task(target),)
        scene.run.send(ev.Requested(7, tasks=tasks, **REQUESTS[name]))


def _take_back(scene: Scene, name: str) -> None:
    target = scene.target
    if name == "debugger":
        scene.run.send(ev.LeftDebugger(task(target), scene.run.attempts[target]))
    else:
        tasks = () if name == "ctrl-z" else (task(target),)
        scene.run.send(ev.Requested(8, tasks=tasks, **TAKEN_BACK[name]))


def outcome(scene: Scene, name: str) -> str:
    """What becomes of the timeout if the request is made at half of its time."""
    run, half = scene.run, scene.seconds / 2
    run.after(half)
    assert not scene.expired()
    _request(scene, name)
    run.after(0)
    is_refused = any(one.request == 7 for one in run.decided(ev.RequestRefused))
    if scene.expired():
        return "now"
    run.after(half + 0.5)
    if scene.expired():
        return "-" if is_refused else "runs"
    if name == "debugger" or name in TAKEN_BACK:
        run.after(5000)
        if scene.expired():
            return "late"
        _take_back(scene, name)
        run.after(scene.seconds + 0.5)
        return "waits" if scene.expired() else "ends"
    run.after(half + 5)  # a restart may have to wait for its backoff
    return "anew" if scene.expired() else "ends"


def cells() -> Iterator[tuple[str, str, str]]:
    """Each cell of the table."""
    header, *rows = (line.split() for line in TABLE.strip().splitlines())
    for request, *expected in rows:
        for timeout, word in zip(header, expected, strict=True):
            yield request, timeout, word


@pytest.mark.parametrize(("request_", "timeout", "expected"), list(cells()))
def test_a_request_while_a_timeout_runs(request_: str, timeout: str, expected: str) -> None:
    """What was asked for is no failure, and what was not asked for is still found."""
    assert outcome(SCENES[timeout](), request_) == expected


def test_the_table_is_complete() -> None:
    """Each request that a client can make, and each scene."""
    header, *rows = (line.split() for line in TABLE.strip().splitlines())
    assert header == list(SCENES)
    verbs = {REQUESTS[name]["verb"] for name, *_ in rows if name in REQUESTS}
    assert verbs == set(Verb) - {Verb.UNPAUSE}  # which takes back, in the rows of what is suspended
