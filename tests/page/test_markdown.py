"""A run and a campaign as Markdown: complete, and nothing in them can break out of it."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from typing import Any

import pytest

from clusterkit.page.markdown import RunFacts, block, campaign_markdown, code, run_markdown
from clusterkit.words.account import RecoveryReport
from clusterkit.words.campaign import campaign_record
from clusterkit.words.examined import ExaminedCell
from clusterkit.words.explanation import Explanation
from clusterkit.words.outcome import Exit, Failure, NotInjected, RunResult, RunState
from tests.histories import task
from tests.ledger.recovering import ps_job
from tests.page.told import RUN, entities
from tests.store.test_campaigns import RECORD

FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.M | re.S)
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.*?[^`])\1(?!`)")
ISSUE = 65_536  # characters that an issue on GitHub takes
HOSTILE = [
    "```\n# out",
    "a | b",
    "<script>alert(1)</script>",
    "@somebody",
    "`` ` ``",
    "\x1b[2J\r\n",
    "-->",
    "\u202e",
    "#1",
    "~~~",
]


def recovered() -> RecoveryReport:
    """Of a job whose chief was killed by a fault."""
    told = ps_job("kill chief:0 @ 11s")
    told.run.after(12)
    told.run.progresses("chief:0", 46)
    return told.report


def told(**changes: Any) -> RunFacts:
    """The made-up run."""
    made = RunFacts(
        run=RUN, now=30.0, clusterkit="1.2", platform={"python": "3.11.2", "tensorflow": "2.21.0", "system": "Linux 6"},
        seed=77, result=RunResult(RunState.SUCCEEDED, 0, "chief:0 exited with code 0"), recovered=RecoveryReport(),
        goodput=entities()["goodput"],
    )  # fmt: skip
    return replace(made, **changes)


def failure(*tail: str, name: str = "worker:0") -> Failure:
    """A task's end."""
    return Failure(task(name), 2, Exit(code=1), 5.0, tail, tail[-1] if tail else None)


def outside(text: str) -> str:
    """What is neither in a block of code nor in a span of it."""
    return SPAN.sub("", FENCE.sub("", text))


def test_a_run_of_an_exam_says_what_the_exam_found() -> None:
    """With the command that examines the cell again, in place of the one that starts the run; whatever is in them."""
    hostile = "`</table> <script>\x1b[31m |"
    passed = ExaminedCell("exam-1", "repeat/unbroken", "passed")
    failed = ExaminedCell(
        "exam-1", f"survival/{hostile}", "failed", (f"Torn. {hostile}", "→ Mend."), "clusterkit exam x"
    )
    text = run_markdown(told(examined=(passed, failed)))
    assert "### Exam" in text
    assert "`passed`" in text
    assert "failed: Torn." in text
    assert "clusterkit exam x" in text
    assert "### To run it again" not in text
    assert "<script>" not in outside(text)
    assert "\x1b" not in text
    assert "### Exam" not in run_markdown(told())


def test_a_success_in_which_a_worker_had_not_finished_is_no_plain_success() -> None:
    """It has no check mark, and says which one."""
    result = RunResult(RunState.SUCCEEDED, 3, "but worker:0 had not finished", unfinished=(failure("x"),))
    text = run_markdown(told(result=result))
    assert "\n## ! `ps_train.py` succeeded" in text
    assert "### Reason" in text
    assert "\nbut worker:0 had not finished\n" in text


@pytest.mark.parametrize("unfinished", [(), (failure("x"),)])
def test_a_success_that_did_not_train_as_meant_is_explained_once(unfinished: tuple[Failure, ...]) -> None:
    """It has no check mark, also where nothing else is in doubt."""
    why = Explanation("unseeded-rows", None, "train.py:9: the rows are shuffled.", "Give them a seed.")
    text = run_markdown(told(result=RunResult(RunState.SUCCEEDED, 0, "x", explanations=(why,), unfinished=unfinished)))
    assert "\n## ! `ps_train.py` succeeded" in text
    assert text.count("train.py:9: the rows are shuffled.") == text.count("Give them a seed.") == 1


def test_a_run_says_what_ran_and_how_it_went() -> None:
    """Versions, machine, result, goodput, recoveries, faults, and the command."""
    text = run_markdown(told(recovered=recovered()))
    assert text.startswith(
        "<!-- clusterkit report: run 20261122-080115-c2ea -->\n\n## ✔ `ps_train.py` succeeded after 30 s"
    )
    for part in (
        "| TensorFlow | `2.21.0` |", "| Python | `3.11.2` |", "| clusterkit | `1.2` |", "| system | `Linux 6` |",
        "| goodput | 80%: `training 24 s, start-up 6.0 s` |",
        "### Recoveries\n\n| recoveries | what |", "`kill chief:0", "### Faults",
        "clusterkit up --seed 77 --workers 2 ps_train.py",
    ):  # fmt: skip
        assert part in text
    assert "### Cause" not in text


def test_a_failed_run_has_its_cause_in_a_block() -> None:
    """With the last lines of its log, and those who failed likewise or of it."""
    result = RunResult(
        RunState.FAILED, 1, "worker:0 failed", cause=failure("Traceback", "ValueError: so"),
        explanations=(Explanation("row", None, "train.py:3: mind.", "Do so.", ("a/b#1",)),),
        collateral=(failure(name="chief:0"),), not_injected=(NotInjected("kill ps:0", "the run had ended"),),
    )  # fmt: skip
    text = run_markdown(told(run=replace(RUN, state="failed", exit_code=1), result=result))
    assert "## ✘ `ps_train.py` failed" in text
    why = "Why: `train.py:3: mind.`\\\nFix: `Do so.`\\\n`https://github.com/a/b/issues/1`"
    block = "```text\nTraceback\nValueError: so\n```"
    assert f"### Cause\n\n`worker:0 exited with code 1 (attempt 2)`\n\n{why}\n\n{block}" in text
    assert "- Collateral: `chief:0 exited with code 1 (attempt 2)`" in text
    assert "|  | never | `kill ps:0` | `the run had ended` |" in text


def test_a_run_without_a_result_is_told_too() -> None:
    """Live, or lost, or so damaged that hardly anything is known."""
    live = run_markdown(told(run=replace(RUN, state="", phase="running", exit_code=None), result=None, goodput=None))
    assert "## – `ps_train.py` running after 30 s" in live
    bare = replace(RUN, id="x", program="", command="", shape="", state="lost", exit_code=None, wall=1e300)
    text = run_markdown(told(run=bare, result=None, platform={}, seed=None))
    assert "## ✘ `x` lost" in text
    assert "again" not in text


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_breaks_out(text: str) -> None:
    """Outside of code there is nothing of what a task, a user or a file wrote."""
    marker = f"{text}ZZZ{text}"
    result = RunResult(RunState.FAILED, 1, marker, cause=failure("a", marker, "b"))
    result = replace(result, explanations=(Explanation("row", None, marker, marker, (marker,)),))
    run = replace(RUN, program=marker, command=f"clusterkit up {marker}", shape=marker)
    whole = run_markdown(told(run=run, result=result, platform={marker: marker}))
    assert whole.count("ZZZ") >= 7
    assert "ZZZ" not in outside(whole)
    record: dict[str, Any] = json.loads(json.dumps(RECORD).replace("The job failed: so.", json.dumps(marker)[1:-1]))
    record["runs"][0]["faults"] = record["used"] = [marker]
    record["command"] = record["problem"] = marker
    record["interrupted"] = record["runs"]
    whole = campaign_markdown(campaign_record(record, "chaos"))
    assert whole.count("ZZZ") >= 5
    assert "ZZZ" not in outside(whole)


def test_random_texts_stay_within_their_code() -> None:
    """Spans and blocks hold whatever is put into them, on as many lines as they should have."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    for _ in range(2000):
        text = "".join(dice.choice(["`", "``", "a", " ", "\n", "|", "\\", "\x00", "\x85", "é"]) for _ in range(12))
        span = code(text)
        assert "\n" not in span
        assert not span or SPAN.fullmatch(span)
        assert FENCE.fullmatch(block([text, "end"]))
        assert all(part.isprintable() or part == "\t" for part in block([text]).split("\n"))


def test_a_report_fits_into_an_issue() -> None:
    """However many lines, runs and violations there are."""
    lines = tuple("x" * 5000 for _ in range(500))
    result = RunResult(RunState.FAILED, 1, "x", cause=failure(*lines), collateral=tuple(failure() for _ in range(500)))
    assert len(run_markdown(told(result=result, run=replace(RUN, command="clusterkit up " + "y" * 99_999)))) < ISSUE
    runs = [{**RECORD["runs"][0], "run": n, "faults": ["kill chief:0"] * 9} for n in range(500)]
    text = campaign_markdown(campaign_record({**RECORD, "runs": runs}, "chaos"))
    assert len(text) < ISSUE
    cut = campaign_markdown(campaign_record({**RECORD, "runs": runs, "interrupted": runs}, "chaos"))
    assert len(cut) < ISSUE
    assert "492 more runs failed." in text
    assert "440 more rows are left out." in text


def test_a_campaign_says_what_failed_and_how_to_replay_it() -> None:
    """With the smallest schedule."""
    text = campaign_markdown(campaign_record({**RECORD, "state": "failed", "ended": 1100.0}, "chaos"))
    for part in (
        "## ✘ Campaign: 0 of 1 run passed", "seed 5", "| `kill` | 1 | 1 |", "### ✘ Run 1", "The job failed: so.",
        "```sh\nclusterkit up x.py\n```", "Shrunk in 3 runs to:",
        "| 1 | `kill chief:0 @ step=3` | ✘ failed | 2.5 | 1.5 s | 4 |",
        "| took | 1 min 40 s |", "clusterkit chaos x.py",
    ):  # fmt: skip
        assert part in text


def test_a_campaign_says_what_was_interrupted_and_how_to_replay_it() -> None:
    """Such a run has violated nothing so far."""
    cut = {**RECORD["runs"][0], "run": 2, "violations": [], "shrunk": None, "replay": "clusterkit up y.py"}
    text = campaign_markdown(campaign_record({**RECORD, "state": "stopped", "interrupted": [cut]}, "chaos"))
    for part in (
        "0 of 1 run passed", "### – Run 2, interrupted\n\n```text\nkill chief:0 @ step=3\n```",
        "```sh\nclusterkit up y.py\n```", "| 2 | `kill chief:0 @ step=3` | – interrupted | 2.5 | 1.5 s | 4 |",
    ):  # fmt: skip
        assert part in text
