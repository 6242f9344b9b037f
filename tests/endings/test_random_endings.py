"""Tasks of random jobs end in random ways: the run ends, its verdict is the oracle's, and each exit is told."""

from __future__ import annotations

import json
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from clusterkit.system import procfs
from tests.endings.oracle import End, Verdict, judge
from tests.endings.situations import Situation, draw
from tests.support import CHILDREN, Up, processes_of

pytestmark = [pytest.mark.process, pytest.mark.slow]


def begins(record: Path) -> dict[tuple[str, int], float]:
    """When each attempt began."""
    lines = (line.split() for line in record.read_text().splitlines())
    return {(task, int(attempt)): float(at) for task, attempt, what, at in lines if what == "begins"}


def ends(situation: Situation, record: Path) -> list[End]:
    """What the tasks have noted, as their supervisor saw it: a shell makes a code of a signal."""
    found = []
    for task, attempt, what, at in (line.split() for line in record.read_text().splitlines()):
        if what != "begins":
            plans = situation.plan[task]
            wrapped = plans[min(int(attempt), len(plans)) - 1]["wrapped"]
            how = int(what)
            found.append(End(float(at), task, int(attempt), 128 - how if wrapped and how < 0 else how))
    return found


def told(output: str, end: End) -> bool:
    """Whether a line says how the attempt ended."""
    how = f"exited with code {end.how}" if end.how >= 0 else f"killed by {signal.Signals(-end.how).name}"
    return re.search(rf"\b{end.task}\b.*{how}\b", output) is not None


def left(home: Path, situation: Situation) -> list[str]:
    """The processes that a run left behind."""
    names = {attempt["daemon"] for plans in situation.plan.values() for attempt in plans if attempt["daemon"]}
    daemons = [f"sleep {name}" for name in names if any(_runs(pid, name) for pid in procfs.all_pids())]
    return [*processes_of(home).values(), *daemons]


def _runs(pid: int, name: str) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() == b"/bin/sleep\0" + name.encode() + b"\0"
    except OSError:
        return False


def problems(home: Path, situation: Situation) -> list[str]:
    """Run a job, and list what is wrong with its end."""
    home.mkdir(parents=True)
    plan, record = home / "plan.json", home / "record"
    plan.write_text(json.dumps(situation.plan))
    record.touch()
    run = Up(home, ("up", *situation.options, str(CHILDREN / "ends.py"), str(plan), str(record)))
    try:
        code = run.wait(60)
    finally:
        run.end()
    seen = ends(situation, record)
    right: Verdict = judge(situation, seen, begins(record))
    result = run.result
    cause = (result.get("cause") or {}).get("task")
    found = []
    if result["state"] not in right.states:
        found.append(f"{result['state']} ({result['reason']}), and not {right.states}")
    elif result["state"] == "failed" and cause not in right.causes:
        found.append(f"the cause is {cause}, and not {right.causes}")
    if (code == 0) != (result["state"] == "succeeded"):
        found.append(f"exit code {code} of a run that {result['state']}")
    asked = {(event["task"], event["attempt"]) for event in run.events("AttemptEnded") if event["exit"]["asked"]}
    found += [f"not told: {end}" for end in seen if not told(run.output, end) and (end.task, end.attempt) not in asked]
    found += [f"left: {process}" for process in left(home, situation)]
    return [f"{home.name}: {each}\n{run.output[-3000:]}\n{record.read_text()}" for each in found]


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(12), id="12", marks=pytest.mark.timeout(120)),
        pytest.param(range(12, 212), id="200", marks=[pytest.mark.long, pytest.mark.timeout(1200)]),
    ],
)
def test_each_end_has_its_verdict(tmp_path: Path, seeds: range) -> None:
    """Each situation has its seed, which is the name of its directory."""
    with ThreadPoolExecutor(3) as pool:
        found = pool.map(lambda seed: problems(tmp_path / f"seed-{seed}", draw(Random(seed), seed)), seeds)
        wrong = [each for one in found for each in one]
    assert not wrong, "\n\n".join(wrong)
