"""`ls`, `ps`, `top`, `show` and completion."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands import JOB, ROLES, Clusterkit, wait_for
from tests.support import CHILDREN, ROOT, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

LONG = (*JOB, ROLES, "--steps", "100000")


def test_ps_tells_what_a_task_does_and_uses(ck: Clusterkit) -> None:
    """From the journal: state, step, speed; from the system: CPU and memory of the whole tree."""
    run = ck.up(*LONG)

    def as_it_steps() -> dict[str, Any] | None:
        row = ck.task("chief:0")  # its first steps may have come in a bunch, which counts for less with each second
        return row if (row["step"] or 0) > 20 and 5 < (row["steps_per_second"] or 0) < 60 else None

    row = wait_until(as_it_steps, 20, "steps, fifty a second at most, fewer on a busy machine")
    assert row["pid"] == wait_for(run, "Spawned", task="chief:0")["pid"]
    assert row["endpoint"].startswith("127.0.0.1:")
    assert row["ready"]
    assert 4 << 20 < row["memory"] < 100 << 20
    assert 0 <= row["cpu"] < 150
    assert 0 < row["uptime"] < 60
    assert row["last_exit"] is None


def test_top_goes_on_until_the_run_is_over(ck: Clusterkit) -> None:
    """A document for each look; the last one is of the end."""
    run = ck.up(*JOB, ROLES, "--steps", "300")
    looks = ck.lines("top", "-i", "0.2")
    assert looks[0]["state"] == "running"
    assert (looks[-1]["run_id"], looks[-1]["state"]) == (run.name, "succeeded")
    assert looks[-1]["tasks"][0]["step"] == 300


def test_top_as_often_as_asked(ck: Clusterkit) -> None:
    """With what the run does and its loss above the tasks, as `ps` says it below them."""
    run = ck.up(*LONG)
    wait_for(run, "Progressed", task="chief:0")
    shown = ck("top", "--count", "2", "-i", "0.1").out
    assert shown.count(f"run {run.name}: running") == 2
    assert len(re.findall(r"^Training: Step .*, loss \d[.\d]*\.$", shown, re.M)) == 2
    assert ck.lines("top", "--count", "1", "-i", "0.1")[0]["metrics"].keys() == {"loss"}
    assert shown.count("worker:1") == 2


def test_show_says_what_the_tasks_used_while_they_trained(ck: Clusterkit) -> None:
    """They wait for half a second in each step, and do nothing else; as text and as JSON."""
    ck("up", "--run-id", "idle", *JOB, ROLES, "--steps", "18", "--step-time", "0.5", deadline=60)
    use = ck.json("show", "idle")["step_use"]
    assert use["measured"] >= 4
    assert use["workers"].keys() == {"worker:0", "worker:1"}
    assert 0.4 < use["step"] < 3
    assert use["cores"] == len(os.sched_getaffinity(0))
    shown = " ".join(ck("show", "idle").out.split())
    assert "A step was made every " in shown
    assert ": most of a step is waiting, for input, other tasks or other programs." in shown
    (ck.home / "runs" / "idle" / "usage.jsonl").write_bytes(os.urandom(4096) + b"\n")
    assert ck.json("show", "idle")["step_use"] is None


def test_ls_survives_what_a_crash_has_left(ck: Clusterkit) -> None:
    """A directory with nothing in it, one with half a journal, and files that are no runs."""
    runs = ck.home / "runs"
    (runs / "empty").mkdir(parents=True)
    (runs / "a-file").write_text("")
    run = ck.up("--run-id", "whole", ROLES, "--steps", "2", "--step-time", "0.5")
    ck("wait", "whole")
    with (run / "journal.jsonl").open("ab") as journal:
        journal.write(b'no json\n{"t": 1, "event": "FromTheFuture"}\n{"t": 17')
    rows = {row["run_id"]: row for row in ck.json("ls")}
    assert set(rows) == {"empty", "whole"}
    assert (rows["empty"]["state"], rows["whole"]["state"], rows["whole"]["step"]) == ("lost", "succeeded", 2)
    assert set(ck("ls", "-q").out.split()) == {"empty", "whole"}
    assert ck("ls", "--live").out.count("\n") == 1
    for command in ("ps", "show", "logs", "events"):
        ck(command, "empty")


def test_ls_lists_runs_where_the_place_of_the_warm_servers_is_broken(ck: Clusterkit) -> None:
    """A link to itself, for example."""
    (ck.home / "warm").symlink_to("warm")
    assert "can't be used: too many levels of symbolic links" in ck("ls").err


def test_show_names_the_cause_of_a_failure(ck: Clusterkit) -> None:
    """With the end of its log, and when it was."""
    ck("up", "--restart", "never", "--workers", "2", CHILDREN / "peer_gone.py", code=1)
    shown = ck("show").out
    assert "Cause: worker:1 exited with code 1" in shown
    assert "ValueError: a planted fault" in shown
    result = ck.json("show")["result"]
    assert (result["cause"]["task"], result["collateral"][0]["task"]) == ("worker:1", "worker:0")


def test_ps_of_a_finished_run_tells_how_its_tasks_ended(ck: Clusterkit) -> None:
    """By its id, since without one a live run is meant."""
    ck("up", "--run-id", "over", ROLES, "--steps", "2")
    assert ck("ps", code=2).err.startswith("clusterkit: No run is live.")
    (row,) = ck.json("ps", "over")["tasks"]
    assert (row["state"], row["pid"], row["last_exit"]["text"]) == ("down", None, "exited with code 0")


def costs(*commands: tuple[str, ...], env: dict[str, str]) -> list[float]:
    """Seconds of CPU that each takes: the least of seven, in turns, since others use the machine too."""
    least = [float("inf")] * len(commands)
    for _ in range(7):
        for number, args in enumerate(commands):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *args], check=True, capture_output=True, cwd=ROOT, env=env)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            least[number] = min(least[number], spent)
    return least


def test_ps_is_instant(ck: Clusterkit, tmp_path: Path) -> None:
    """At most four times what it takes to import click and rich, both compiled as an installed package is."""
    ck.up(*LONG)
    env = {**ck.environment(), "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    imports, shown = costs(("-c", "import click, rich"), ("-m", "clusterkit", "ps"), env=env)
    assert shown <= 4 * imports


COMPLETIONS = {
    "clusterkit p": ["ps", "profile", "pause", "prune"],
    "clusterkit ps o": ["one"],
    "clusterkit show ": ["one"],
    "clusterkit logs ev": ["evaluator:0", "evaluator"],
    "clusterkit kill wor": ["worker:0", "worker:1", "worker"],
    "clusterkit kill worker:": ["0", "1"],  # bash has split the word at the colon
    "clusterkit kill --run one worker:1 a": ["all"],
    "clusterkit logs o": ["one"],
    "clusterkit logs one c": [],
    "clusterkit logs worker:1 o": [],
    "clusterkit ps one o": [],
    "clusterkit rm one o": ["one"],
    "clusterkit logs one e": ["evaluator:0", "evaluator"],
    "clusterkit fault o": ["one"],
}


def test_bash_completes_commands_runs_and_tasks(ck: Clusterkit, tmp_path: Path) -> None:
    """By the function that `clusterkit completion bash` prints."""
    ck("up", "--run-id", "one", "--workers", "2", "--evaluator", ROLES, "--steps", "1")
    door = tmp_path / "clusterkit"
    python = "import sys; sys.argv[0] = 'clusterkit'; from clusterkit.cli import main; main()"
    door.write_text(f'#!/bin/sh\nexec \'{sys.executable}\' -c "{python}" "$@"\n')
    door.chmod(0o755)
    script = ck("completion", "bash").out
    for line in COMPLETIONS:
        script += (
            f"\nCOMP_LINE='{line}' COMP_POINT={len(line)}\n_clusterkit_complete {door}\necho \"${{COMPREPLY[*]}}\"\n"
        )
    bash = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=ck.environment(), timeout=60)
    found = [line.split() for line in bash.stdout.splitlines()]
    assert dict(zip(COMPLETIONS, found, strict=True)) == COMPLETIONS


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_their_completion_too(ck: Clusterkit, shell: str) -> None:
    """The script that click makes for them."""
    assert "_CLUSTERKIT_COMPLETE" in ck("completion", shell).out
