"""Hostile text on the way to a terminal: through every view, every command and the console."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import re
import typing
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from types import UnionType
from typing import Any

import click
import pytest
from click.testing import CliRunner

from clusterkit.chaos import text as campaign
from clusterkit.chaos.model import Outcome, SmallestSchedule
from clusterkit.check.findings import Finding
from clusterkit.check.findings import as_text as check_text
from clusterkit.cli import cli
from clusterkit.cli.terminal import exit_on_error
from clusterkit.doctor import diagnosis as doctor
from clusterkit.doctor.diagnosis import Diagnosis
from clusterkit.ledger.ledger import Ledger, ledger_of
from clusterkit.ledger.status import RunStatus
from clusterkit.store.directory import RunDirectory
from clusterkit.store.paths import RunPaths
from clusterkit.store.store import RunStore
from clusterkit.supervisor.loop import Journal
from clusterkit.views.console import Console, Show
from clusterkit.views.goodput import goodput_lines, startup_lines
from clusterkit.views.listing import run_row, runs_table, task_rows, tasks_table
from clusterkit.views.naming import failed
from clusterkit.views.narrate import sentence
from clusterkit.views.recoveries import recovery_lines
from clusterkit.views.report import report
from clusterkit.views.timeline import any_sentence, timeline, timeline_text
from clusterkit.words import events as ev
from clusterkit.words import wire
from clusterkit.words.account import Goodput, RecoveryReport, Startup
from clusterkit.words.errors import BadJob, ClusterkitError
from clusterkit.words.faults import Fault, FaultAction
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task
from clusterkit.words.outcome import Failure, RunResult
from tests.histories import job

FORGED = "FORGED"
HOSTILE = (
    f"\x1b]0;title\x07\x1b]52;c;eA==\x1b\\\x1b[2J\x1b[9A\x9b2J\x90q\x9c\u202e\u2066\ud800\x08\x85\u2028\r\n{FORGED}"
)
COLORED = f"\x1b[31m{HOSTILE}"
ACTS = re.compile("[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|\x1b(?!\\[[0-9;:]*m)")
WORKER = Task.parse("worker:0")
KINDS = typing.get_args(ev.Event)


def made(hint: Any) -> Any:
    """A value of a type, in which every text is hostile."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (UnionType, typing.Union):
        return made(next(arg for arg in args if arg is not type(None)))
    if origin is tuple:
        return (made(args[0]),)
    if origin is not None and issubclass(origin, Mapping):
        return {made(args[0]): made(args[1])}
    if hint is Task:
        return WORKER
    if hint is Fault:
        return Fault(FaultAction.CORRUPT, how=COLORED)
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        return typing.cast(Any, hint)(**{field.name: made(hints[field.name]) for field in dataclasses.fields(hint)})
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return next(iter(hint))
    return COLORED if hint in (str, Any) else hint(2)


def is_harmless(text: str, color: bool = False) -> bool:
    """Whether nothing in a text acts on a terminal, or begins a line that no view has made."""
    forged = [line for line in text.split("\n") if line.startswith(FORGED)]
    return not ACTS.search(text) and not forged and (color or "\x1b" not in text)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_events(kind: type) -> None:
    """As a sentence, and as a line of `events` and of the timeline. A warning may have more lines than one."""
    event = made(kind)
    lines = any_sentence(event) or ""
    if kind is not ev.Warned:
        assert is_harmless(lines)
        assert lines.count("\n") == (3 if kind is ev.TrainAlone else 0)  # with code
    for text in [(sentence(event) or ("", ""))[1], timeline_text(timeline([(0.0, event)])), lines]:
        assert is_harmless(text.replace(FORGED, ""))


def hostile_status() -> RunStatus:
    """The status after one event of each kind."""
    return ledger_of(job(workers=1), [(0.0, made(kind)) for kind in KINDS]).run


VIEWS: dict[str, Callable[[], str]] = {
    "report": lambda: report(made(RunResult), RunPaths(PurePath(f"/{HOSTILE}")), False, recovered=made(RecoveryReport)),
    "goodput": lambda: "\n".join(goodput_lines(made(Goodput))),
    "start-up": lambda: "\n".join(startup_lines(made(Startup))),
    "recoveries": lambda: "\n".join(recovery_lines(made(RecoveryReport))),
    "a failure": lambda: failed(made(Failure)),
    "ps": lambda: tasks_table(task_rows(hostile_status(), 1.0, True, {})),
    "ls": lambda: runs_table([run_row(HOSTILE, ("live", HOSTILE), 1.0, made(JobSpec), Ledger(None).run)]),
    "check": lambda: check_text([made(Finding)]),
    "doctor": lambda: doctor.as_text([made(Diagnosis)], color=False),
    "chaos": lambda: campaign.failure(made(Outcome), made(SmallestSchedule), lambda outcome: ""),
    "chaos, a run": lambda: campaign.run_line(made(Outcome), 3),
    "chaos, all": lambda: campaign.summary([made(Outcome)], 3, 1),
}


@pytest.mark.parametrize("view", VIEWS)
def test_views(view: str) -> None:
    """Each makes one line of what is one line, and leaves no control character in it."""
    assert is_harmless(VIEWS[view]())


@pytest.mark.parametrize("color", [False, True])
def test_the_console(color: bool) -> None:
    """What tasks write, sentences and blocks; colors only where they are wanted."""
    reading, writing = os.pipe()
    console = Console(writing, [WORKER], Show(color=color))
    console.output(WORKER, 1, (COLORED * 3 + "\n").encode("utf-8", "surrogatepass") * 100)
    console.output(WORKER, 1, COLORED.encode("utf-8", "surrogatepass"))
    console.output(WORKER, 1, b"")
    console.say(COLORED)
    console.block(report(made(RunResult), RunPaths(PurePath("/")), color))
    console.block(COLORED.replace(FORGED, ""))
    console.close()
    os.close(writing)
    with os.fdopen(reading, "rb") as shown:
        assert is_harmless(shown.read().decode(), color)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """A run that is over, whose files are hostile."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path))
    directory = RunStore().run("run")
    directory.make()
    os.close(directory.lock())
    directory.add_task(WORKER)
    job = {"created": 1.0, "endpoints": {"worker:0": HOSTILE}, "job": wire.encode(made(JobSpec))}
    directory.job_file.write_text(json.dumps(job))
    directory.result_file.write_text(json.dumps(wire.encode(made(RunResult))))
    journal = Journal(directory.journal, lambda: 1.0, print)
    for kind in KINDS:
        if kind is not ev.Warned:
            journal.write(made(kind), 1.0)
    journal.close()
    directory.log(WORKER, 1).write_bytes(COLORED.encode("utf-8", "surrogatepass"))
    return directory


@pytest.mark.parametrize("json_flag", [[], ["--json"]])
@pytest.mark.parametrize("command", ["ps", "ls", "show", "events", "logs", "wait", "prune"])
def test_commands(run: RunDirectory, command: str, json_flag: list[str]) -> None:
    """Those that look at a run print nothing that acts, as text and as JSON."""
    named = {"ls": [], "prune": ["--keep", "0", "--dry-run"]}.get(command, ["run"])
    outcome = CliRunner().invoke(cli, [command, *named, *json_flag])
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit)
    assert outcome.output
    assert is_harmless(outcome.output)


@pytest.mark.parametrize("error", [ClusterkitError(COLORED), BadJob([COLORED, "b"])])
def test_errors(error: ClusterkitError) -> None:
    """Messages name files, and a file's name can be anything."""

    @click.command
    def fail() -> None:
        with exit_on_error():
            raise error

    outcome = CliRunner().invoke(fail)
    assert outcome.exit_code == error.exit_code
    assert is_harmless(outcome.output.replace(FORGED, ""))


def test_json_is_plain_ascii(run: RunDirectory) -> None:
    """And gives back what was there."""
    outcome = CliRunner().invoke(cli, ["show", "run", "--json"])
    assert json.loads(outcome.output)["result"]["reason"] == COLORED
