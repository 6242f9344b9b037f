"""Each command that removes, ends, pauses or restarts, on a run in each of its states: one cell each, by hand."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clusterkit.cli import cli
from clusterkit.store.cleaning import StillLive, StillWanted, remove
from clusterkit.store.directory import InUse, RunDirectory, RunInfo
from clusterkit.store.removals import Removals
from clusterkit.supervisor.prepare import _resume
from clusterkit.supervisor.takeover import RunOver, take_over
from clusterkit.system import procfs
from clusterkit.warm.choice import marks
from clusterkit.words import events as ev
from clusterkit.words import wire
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import Verb
from clusterkit.words.job import Limits, RestartRules
from clusterkit.words.outcome import RunResult, RunState
from tests.histories import SIGKILL, History, job, task
from tests.support import wait_until

# removed    its files are gone, and a record says so
# kept       it can be continued, so it is kept, and how to remove it is said
# live       it is live, so it is left alone, and that is said
# skipped    it is left alone without a word
# spared     its processes live on
# reaped     processes that it left behind are ended, and nothing else is touched
# gone       no supervisor could act on it: the command fails
# begins     a supervisor takes it over where it was (`--continue`), or begins another one from it (`--resume`)
# waits      no task was ended, since none runs; how to continue it and how to remove it is said
# over       how it ended is said, and its exit code is the command's
# ends       its tasks are ended, and no other one starts
# fails      the task ends, which is a failure like any other
# restarts   its tasks start again, which costs nothing
# pauses, resumes
# refused    the run can't do so now, and says why
TABLE = """
             starting  running   paused    recovering  suspended  lost     over
rm           live      live      live      live        kept       kept     removed
rm--force    live      live      live      live        removed    removed  removed
prune        skipped   skipped   skipped   skipped     kept       kept     removed
reap         spared    spared    spared    spared      reaped     reaped   reaped
page         live      live      live      live        kept       kept     removed
--continue   live      live      live      live        begins     begins   over
--resume     live      live      live      live        begins     begins   begins
down         ends      ends      ends      ends        waits      waits    over
down--kill   ends      ends      ends      ends        waits      waits    over
kill         refused   fails     fails     refused     gone       gone     gone
restart      restarts  restarts  restarts  restarts    gone       gone     gone
pause        refused   pauses    refused   refused     gone       gone     gone
unpause      refused   refused   resumes   refused     gone       gone     gone
"""
SPEC = job(workers=2, limits=Limits(startup=0, stall_warning=0), restart=RestartRules(backoff=20))
LIVE = ("starting", "running", "paused", "recovering")
RESULTS = {
    "suspended": RunResult(RunState.SUSPENDED, 75, "its time limit is reached"),
    "over": RunResult(RunState.FAILED, 1, "worker:0 exited with code 1"),
}
REQUESTS: dict[str, dict[str, Any]] = {
    "down": {"verb": Verb.DOWN},
    "down--kill": {"verb": Verb.DOWN, "force": True},
    "kill": {"verb": Verb.KILL},
    "restart": {"verb": Verb.RESTART},
    "pause": {"verb": Verb.PAUSE},
    "unpause": {"verb": Verb.UNPAUSE},
}


def cells() -> Iterator[tuple[str, str, str]]:
    """Each cell of the table."""
    header, *rows = (line.split() for line in TABLE.strip().splitlines())
    for command, *expected in rows:
        for state, word in zip(header, expected, strict=True):
            yield command, state, word


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path))
    return tmp_path


@contextmanager
def run_in(home: Path, state: str) -> Iterator[RunDirectory]:
    """The files of a run with a checkpoint; a live one is locked by another process, except at its very beginning."""
    run = RunDirectory(home / "runs" / "x")
    run.make()
    lock = None
    if state != "starting":
        run.write_info(RunInfo(run_id="x", created=1.0, endpoints={}, checkpoints=str(run.checkpoints), job=SPEC))
        (run.checkpoints / "ckpt-5.index").touch()
        run.journal.write_text(_lines(ev.Began(), *([ev.Finished(RESULTS[state])] if state in RESULTS else [])))
        lock = os.open(run.lock_file, os.O_RDWR | os.O_CREAT)
    if state in RESULTS:
        run.result_file.write_text(json.dumps(wire.encode(RESULTS[state])))
    if lock is not None and state in LIVE:
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield run
    finally:
        if lock is not None:
            os.close(lock)


def _lines(*events: ev.Event) -> str:
    return "".join(
        json.dumps({"t": 1.0 + at, "m": float(at), **wire.encode_event(event)}) + "\n"
        for at, event in enumerate(events)
    )


def _cli(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def _rm(run: RunDirectory, *words: str) -> str:
    answer = _cli("rm", *words, "x")
    if answer.exit_code == 0 and not run.path.exists() and Removals(run.path.parent.parent).find("x") is not None:
        return "removed"
    assert (answer.exit_code, answer.stdout, run.journal.exists()) == (1, "", True), answer.output
    if "The run x is live. Stop it first: clusterkit down x" in answer.stderr:
        return "live"
    return "kept" if "clusterkit rm --force x" in answer.stderr else answer.stderr


def _prune(run: RunDirectory) -> str:
    answer = _cli("prune", "--older-than", "0s")
    assert answer.exit_code == 0, answer.output
    if answer.stdout == "x\n" and not run.path.exists():
        return "removed"
    assert run.journal.exists()
    return "kept" if "Kept 1 run" in answer.stderr else "skipped" if answer.output == "" else answer.output


def _reap(run: RunDirectory) -> str:
    """With a process that has the marks of the run's tasks."""
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, **marks(run, "worker:1")})
    try:
        wait_until(lambda: procfs.environ(process.pid).get("CLUSTERKIT_TASK") == "worker:1", 10, "its marks")
        before = sorted(run.path.rglob("*"))
        answer = _cli("reap")
        assert answer.exit_code == 0
        assert sorted(run.path.rglob("*")) == before
        if answer.output == "Nothing was left behind.\n":
            return "spared" if process.poll() is None else "killed"
        assert process.wait(10) == -SIGKILL
        return "reaped" if answer.output == "Ended 1 process of the run x.\n" else answer.output
    finally:
        process.kill()
        process.wait()


def _page(run: RunDirectory) -> str:
    try:
        remove(run, "the dashboard")
    except StillLive:
        return "live"
    except StillWanted:
        return "kept"
    return "removed"


def _continue(run: RunDirectory) -> str:
    try:
        past_run = take_over(run, SPEC)
    except RunOver as error:
        return "over" if error.exit_code == 1 else str(error)
    except InUse as error:
        return "live" if error.is_live else str(error)
    return "begins" if past_run is not None and past_run.history.allocations == 1 else "begins anew"


def _continue_starting(run: RunDirectory) -> str:
    """A run has no lock only for a moment after it has made its directory; here it takes the lock then."""
    lock = run.lock(0.0)
    try:
        return _continue(run)
    finally:
        os.close(lock)


def _resume_from(run: RunDirectory) -> str:
    try:
        return "begins" if _resume(job(workers=2, resume="x")) is not None else "nothing"
    except ClusterkitError as error:
        return "live" if "is still running, so it can't be resumed" in str(error) else str(error)


ON_FILES: dict[str, Callable[[RunDirectory], str]] = {
    "rm": _rm,
    "rm--force": lambda run: _rm(run, "--force"),
    "prune": _prune,
    "reap": _reap,
    "page": _page,
    "--continue": _continue,
    "--resume": _resume_from,
}


def _history(state: str) -> History:
    """A live run in this state; requests are about worker:1."""
    run = History(SPEC)
    run.warming = state == "starting"
    run.begin()
    if state == "starting":
        return run
    for name in ("worker:0", "worker:1"):
        run.progresses(name, 1)
    if state == "paused":
        run.send(ev.Requested(1, Verb.PAUSE, (task("worker:1"),)))
    if state == "recovering":  # for the second time, so that it waits for its backoff
        for code in (3, 4):
            run.exits("worker:1", code=code)
            run.after(2)
        assert run.live == set()
    return run


def on_machine(command: str, state: str) -> str:
    """What a live run makes of a request."""
    run = _history(state)
    before = dict(run.attempts)
    planned = len(run.decided(ev.RestartPlanned))
    tasks = () if command.startswith("down") else (task("worker:1"),)
    run.send(ev.Requested(7, tasks=tasks, **REQUESTS[command]))
    if any(one.request == 7 for one in run.decided(ev.RequestRefused)):
        return "refused"
    if run.warming:
        run.warms()
    run.after(5)
    if run.over:
        return "ends" if run.attempts == before and not run.live else "fails"
    new = run.decided(ev.RestartPlanned)[planned:]
    if new:
        assert run.live == {"worker:0", "worker:1"}
        return "restarts" if all(one.free for one in new) else "fails"
    if run.decided(ev.Paused):
        return "pauses" if run.decided(ev.Paused)[-1].paused else "resumes"
    return "nothing"


def on_no_supervisor(command: str) -> str:
    """What the command says of a run that has none."""
    name, _, option = command.partition("--")
    words = [*(["--kill"] if option else []), *(["--run", "x"]), *([] if name == "down" else ["worker:1"])]
    answer = _cli(name, *words)
    if name == "down":
        assert answer.exit_code == 0
        if answer.output == "The run x had already ended.\n":
            return "over"
        how = "`up --run-id x --continue` continues it, `clusterkit rm --force x` removes it."
        return "waits" if how in answer.output else answer.output
    assert answer.exit_code != 0
    return "gone" if "x" in answer.stderr and "live" in answer.stderr else answer.stderr


@pytest.mark.parametrize(("command", "state", "expected"), list(cells()))
def test_a_command_on_a_run_in_a_state(home: Path, command: str, state: str, expected: str) -> None:
    """What may still be wanted is kept, and nothing happens without a word."""
    if command in REQUESTS and state in LIVE:
        assert on_machine(command, state) == expected
        return
    before = _descriptors()
    with run_in(home, state) as run:
        if command in REQUESTS:
            assert on_no_supervisor(command) == expected
        elif (command, state) == ("--continue", "starting"):
            assert _continue_starting(run) == expected
        elif (command, state) == ("--resume", "starting"):
            lock = run.lock(0.0)
            assert _resume_from(run) == expected
            os.close(lock)
        else:
            assert ON_FILES[command](run) == expected
        assert run.path.exists() == (expected != "removed")
    _close_locks(before)


def _descriptors() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


def _close_locks(before: set[int]) -> None:
    """Close what a supervisor would keep open until its end."""
    for descriptor in _descriptors() - before:
        with suppress(OSError):
            os.close(descriptor)


def test_a_kill_is_a_failure_like_any_other() -> None:
    """It is charged, unlike a restart that is asked for."""
    run = _history("running")
    run.send(ev.Requested(7, Verb.KILL, (task("worker:1"),), signal=SIGKILL))
    run.after(5)
    (planned,) = run.decided(ev.RestartPlanned)
    assert (planned.charged, planned.free) == (1, False)
