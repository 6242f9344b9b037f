"""Each way in which a run ends, at each door: exit code, report, `ls`, `show` and page, Markdown, the end hook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import pytest

from clusterkit.hooks.moments import Moments
from clusterkit.ledger.ledger import Ledger
from clusterkit.ledger.status import RunPhase
from clusterkit.ledger.takeover import lost_result
from clusterkit.page.markdown import run_markdown
from clusterkit.store.paths import Paths
from clusterkit.supervisor.loop import _unsaved
from clusterkit.views.guidance import end_guidance
from clusterkit.views.listing import run_state
from clusterkit.views.situations import ending
from clusterkit.words import events as ev
from clusterkit.words.account import RecoveryReport
from clusterkit.words.distribution import Training
from clusterkit.words.job import Hook, JobSpec, Limits, RestartPolicy, RestartRules
from clusterkit.words.outcome import RunResult
from tests.histories import SIGINT, SIGTERM, History, faults, job, task
from tests.page.test_markdown import told
from tests.page.told import RUN
from tests.views.test_report import lines

GANG = job(workers=2, restart=RestartRules(policy=RestartPolicy.NEVER))
STARTED, RESUMED, CONTINUED = (
    "clusterkit up train.py",
    "up --resume r-1 train.py",
    "up --run-id r-1 --continue train.py",
)


def trained(spec: JobSpec = GANG, alone: bool = False, **how: Any) -> History:
    """Two workers that have made 8 steps in 10 seconds, together or alone."""
    run = History(spec, **how).begin()
    strategies = () if alone else ("MultiWorkerMirroredStrategy",)
    training = Training.FIT if alone else Training.SCOPED
    for name in ("worker:0", "worker:1"):
        run.send(ev.TrainsWith(task(name), 1, strategies, 0 if alone else 2, not alone, training))
        run.progresses(name, 8)
    run.after(10)
    return run


def succeeded(run: History) -> RunResult:
    run.exits("worker:1", code=0)
    run.exits("worker:0", code=0)
    run.after(30)
    return run.result


def alone(*allow: str) -> RunResult:
    return succeeded(trained(replace(GANG, allow=allow), alone=True, listening=False))


def unfinished(*allow: str) -> RunResult:
    run = trained(replace(GANG, allow=allow), stubborn={"worker:1"})
    run.exits("worker:0", code=0)
    run.after(40)
    return run.result


def not_a_number(*allow: str) -> RunResult:
    run = trained(replace(GANG, allow=allow))
    run.send(ev.Progressed(task("worker:0"), 1, 9, {"loss": None}))
    return succeeded(run)


def without_its_fault(*allow: str) -> RunResult:
    return succeeded(trained(replace(GANG, faults=faults("kill worker:1 @ step=1000"), allow=allow)))


def failed() -> RunResult:
    run = trained()
    run.exits("worker:1", code=1, exception="ValueError: bad")
    run.after(30)
    return run.result


def ended_by(*events: ev.Happened, spec: JobSpec = GANG) -> RunResult:
    run = trained(spec)
    for event in events:
        run.send(event)
    run.after(60)
    return run.result


def lost() -> RunResult:
    ledger = Ledger(GANG)
    run = History(GANG, observe=lambda event, now: ledger.add(now, event)).begin()
    run.progresses("worker:0", 8)
    run.after(5)
    run.progresses("worker:0", 9)
    result = lost_result(ledger, "its supervisor was killed")
    assert result is not None
    return result


@dataclass(frozen=True)
class Row:
    """An end, and what is said of it: exit code and word, the mark, the sentence, and what to do."""

    how: Callable[[], RunResult]
    code: int
    word: str
    mark: str
    sentence: str  # of `show` and the page; the end hook has its second half
    todo: str  # how the advice begins
    commands: tuple[str, ...] = ()


SHOW = ("clusterkit show r-1",)
END = "worker:0 exited with code 0"
FIX = "Fix that. Then start the run again:"
ROWS = {
    "success": Row(
        lambda: succeeded(trained()), 0, "succeeded", "✔",
        "The run succeeded after 10 s.", "Nothing. For details:", SHOW,
    ),
    "trained alone": Row(
        alone, 3, "succeeded", "!",
        f"The run succeeded after 10 s: {END}, but worker:0 and worker:1 each trained alone.", "The program needs: ",
    ),
    "trained alone, as is meant": Row(
        lambda: alone("alone"), 0, "succeeded", "✔", "The run succeeded after 10 s.", "Nothing. For details:", SHOW
    ),
    "a worker was not done": Row(
        unfinished, 3, "succeeded", "!",
        f"The run succeeded after 20 s: {END}, but worker:1 had not finished.", "Let every task make the same number",
    ),
    "a worker was not done, as is meant": Row(
        lambda: unfinished("unfinished"), 0, "succeeded", "✔",
        "The run succeeded after 20 s.", "Let every task make the same number",
    ),
    "NaN": Row(
        not_a_number, 3, "succeeded", "!",
        f"The run succeeded after 10 s: {END}, but the loss is not a number, first at step 9; loss not a number.",
        "Look for a learning rate that is too high",
    ),
    "NaN, as is meant": Row(
        lambda: not_a_number("nan"), 0, "succeeded", "✔", "The run succeeded after 10 s: loss not a number.",
        "Look for a learning rate that is too high",
    ),
    "a fault did not come": Row(
        without_its_fault, 3, "succeeded", "!",
        f"The run succeeded after 10 s: {END}, but a fault that was asked for was never injected.",
        "Give the fault a trigger that this run reaches.",
    ),
    "its result is not there": Row(
        lambda: _unsaved(succeeded(trained())), 3, "succeeded", "!",
        f"The run succeeded after 10 s: {END}, but its result could not be saved.",
        "Keep the run directory until the run has ended",
    ),
    "failed": Row(
        failed, 1, "failed", "✘", "The run failed after 11 s: worker:1 failed: ValueError: bad (attempt 1).",
        "Fix the program. Read the log, then resume the run:", ("clusterkit logs r-1 worker:1", RESUMED),
    ),
    "Ctrl-C": Row(
        lambda: ended_by(ev.Interrupted(SIGINT)), 130, "stopped", "✘",
        "The run stopped after 10 s: clusterkit got SIGINT.", "Continue it:", (RESUMED,),
    ),
    "SIGTERM": Row(
        lambda: ended_by(ev.Interrupted(SIGTERM)), 143, "stopped", "✘",
        "The run stopped after 10 s: clusterkit got SIGTERM.", "Continue it:", (RESUMED,),
    ),
    "timeout": Row(
        lambda: ended_by(spec=replace(GANG, limits=Limits(job=30.0))), 124, "timed out", "✘",
        "The run timed out after 30 s: the job took longer than its timeout of 30 s.", "Continue it:", (RESUMED,),
    ),
    "suspended": Row(
        lambda: ended_by(ev.AllocationEnding("preempted", 5.0)), 75, "suspended", "–",
        "The run was suspended after 10 s: preempted.", "Continue it:", (CONTINUED,),
    ),
    "a full disk": Row(
        lambda: ended_by(ev.StorageFailed("the log of worker:1 could not be written: No space left on device")),
        1, "failed", "✘",
        "The run failed after 10 s: the log of worker:1 could not be written: No space left on device.",
        "Fix that. Then resume the run:", (RESUMED,),
    ),
    "clusterkit's own failure": Row(
        lambda: ended_by(ev.Crashed("the loop", "KeyError: 1", "Traceback")), 70, "failed", "✘",
        "The run failed after 10 s: clusterkit itself failed in the loop (KeyError: 1).",
        "Read crash.txt in the run directory. Unless the machine lacked something, please report it.", (RESUMED,),
    ),
    "lost": Row(
        lost, 1, "lost", "✘", "The run was lost after 5.0 s: its supervisor was killed.", "Continue it:", (CONTINUED,)
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_all_doors_say_the_same(row: Row) -> None:
    """No door draws conclusions of its own."""
    result = row.how()
    assert (result.exit_code, result.word) == (row.code, row.word)
    assert run_state(False, RunPhase.OVER, result) == row.word
    assert lines(result)[0].startswith(f"{row.mark} run r-1 {result.ended} after ")
    assert ending(result) == row.sentence
    assert result.fine is (row.mark == "✔")
    text = run_markdown(told(run=replace(RUN, state=row.word, exit_code=row.code), result=result))
    assert f"\n## {row.mark} `ps_train.py` {row.word} after " in text
    resume = {"suspended": CONTINUED, "lost": CONTINUED}.get(row.word, None if row.word == "succeeded" else RESUMED)
    advice = end_guidance(result, RecoveryReport(), "r-1", resume, STARTED)
    assert advice.todo.startswith(row.todo)
    assert advice.commands == row.commands


@pytest.mark.parametrize("name", [name for name in ROWS if name != "lost"])
def test_the_hook_has_the_exit_code_and_the_reason(name: str) -> None:
    """A suspended run has not ended, and a lost supervisor can't call any hook."""
    result = ROWS[name].how()
    documents = Moments(Ledger(GANG), Paths(PurePath("/runs/r-1"))).add(0.0, ev.Finished(result))
    if name == "suspended":
        assert documents == []
        return
    (document,) = documents
    said = document.encode(1e9, 0)
    assert (said["event"], said["state"], said["run_exit_code"]) == (
        Hook.END.value,
        result.state.value,
        result.exit_code,
    )
    assert said["message"] == f"The run {result.state}: {result.reason}"


@pytest.mark.parametrize("name", ROWS)
def test_only_a_run_that_can_be_continued_is_not_final(name: str) -> None:
    """So prune and rm keep it."""
    assert ROWS[name].how().final is (name not in ("suspended", "lost"))
