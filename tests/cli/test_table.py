"""Every command with every kind of wrong arguments: a sentence and an exit code, never a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from clusterkit.cli import COMMANDS, cli
from tests.commands import JOB, ROLES, Clusterkit

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]

FORMS = {
    "no arguments": (),
    "an empty word": ("",),
    "a blank word": (" ",),
    "too many words": ("a", "b", "c", "d"),
    "a run that is over": ("over",),
    "a run that is not there": ("nosuch",),
    "a live run": ("live",),
    "an empty --run": ("--run", ""),
    "a --run that is not there": ("--run", "nosuch", "worker:0"),
    "a --run that is over": ("--run", "over", "worker:0"),
    "a task that is not there": ("--run", "live", "worker:99"),
}
GROUPS = [("warm", "start"), ("warm", "status"), ("warm", "stop")]
CALLS = [(name,) for name in COMMANDS] + GROUPS
NEWEST = ("no arguments", "a live run", "a run that is over")
LASTING = {  # what shows, waits for or ends a run, until it is over or Ctrl-C: test_commands_… has each of them
    "attach": (*NEWEST, "a --run that is over"),
    "wait": NEWEST[:2],
    "top": NEWEST[:2],
    "tensorboard": NEWEST,
    "dashboard": NEWEST,
    "profile": NEWEST[:2],
    "debug": NEWEST[:2],
    "down": NEWEST,
    "rm": NEWEST,
    "warm start": NEWEST[:1],
    "doctor": NEWEST[:1],
}
SAID: dict[tuple[str, ...], tuple[int, str]] = {  # the exit code and a part of what is said
    ("fault",): (2, "No fault given. Write one, such as 'kill worker:1', or use --heal."),
    ("fault", ""): (2, "A run id or a fault can't be empty."),
    ("fault", "--run", "live"): (2, "No fault given."),
    ("fault", "live"): (2, "No fault given."),
    ("fault", "live", " "): (2, "it begins with an action, as in 'kill worker:1 @ step=100'"),
    ("fault", "live", "@"): (2, "it begins with an action"),
    ("fault", "live", "kill worker:9"): (2, "the job has no task worker:9"),
    ("fault", "--heal"): (0, "Healed: no fault was open."),
    ("fault", "live", "--heal"): (0, "Healed: no fault was open."),
    ("fault", "--run", "live", "--heal"): (0, "Healed: no fault was open."),
    ("fault", "over", "--heal"): (1, "The run over is not live."),
    ("fault", "nosuch", "--heal"): (2, "There is no run 'nosuch'"),
    ("fault", "over", "kill worker:0"): (1, "The run over is not live."),
    ("fault", "--run", "", "kill worker:0"): (2, "A run id can't be empty."),
    ("kill", "--run", "live", "worker:9"): (2, "has no task worker:9."),
    ("kill", "--run", "live", "evaluator"): (2, "has no task of the type evaluator"),
    ("kill", "--run", "over", "worker:0"): (1, "The run over is not live."),
    ("kill", "-s", "", "worker:0"): (2, "'' is not a signal"),
    ("kill", "-s", "0", "worker:0"): (2, "'0' is not a signal"),
    ("restart", "--run", "nosuch", "worker:0"): (2, "There is no run 'nosuch'"),
    ("unpause", "--run", "live", "worker:0"): (1, "worker:0 is not paused now."),
    ("logs", "live", "worker:9"): (2, "has no task worker:9"),
    ("logs", "live", "--grep", "("): (2, "is not a regular expression"),
    ("logs", "live", "--since", ""): (2, "'' is neither a duration"),
    ("events", "live", ""): (2, "'' is neither a run nor a task"),
    ("logs", "nosuch"): (2, "There is no run 'nosuch'"),
    ("logs", "nosuch", "worker:0"): (2, "It is not a task either: a task is worker:1, worker (all workers) or all"),
    ("logs", "wroker"): (2, "or all. Did you mean worker?"),
    ("logs", "worker1"): (2, "or all. Did you mean worker:1?"),
    ("logs", "worker-0"): (2, "or all. Did you mean worker:0?"),
    ("logs", "work:1"): (2, "or all. Did you mean worker:1?"),
    ("show", "wroker"): (2, "There is no run 'wroker'"),
    ("logs", "--run", "nosuch", "worker:0"): (2, "There is no run 'nosuch'"),
    ("logs", "worker:0", "live"): (2, "'live' is not a task. A task is worker:1, worker (all workers) or all; a"),
    ("logs", "live", "over"): (2, "'over' is not a task."),
    ("logs", "--run", "over", "live"): (2, "The run is named twice: 'live' and --run over."),
    ("show", "--run", "over", "live"): (2, "The run is named twice: 'live' and --run over."),
    ("show", "over", "worker:0"): (2, "Only one run can be named. 'worker:0' is one too many."),
    ("logs", "wroker:1"): (2, "'wroker:1' is neither a run nor a task. A task is worker:1, worker (all workers) or"),
    ("kill", "live"): (2, "No task is named. A task is worker:1"),
    ("kill", "worker1"): (2, "or all. Did you mean worker:1?"),
    ("restart", "2026", "worker_1"): (2, "a run goes before the tasks. Did you mean worker:1?"),
    ("kill", "worker:1", "wroker:2"): (2, "Did you mean worker:2?"),
    ("attach", "live", "worker:9"): (2, "has no task worker:9"),
    ("fault", "worker:0"): (2, "'worker:0' is neither a run nor a fault. Write a fault in quotes: 'kill worker:1 @"),
    ("fault", "kill", "worker:0"): (2, "Write a fault in quotes: 'kill worker:0'."),
    ("fault", "nosuch"): (2, "No fault given."),
    ("fault", "nosuch", "kill worker:0"): (2, "It is not a fault either: a fault begins with an action (kill, term,"),
    ("fault", "live", "kill worker:0 @ 100"): (2, "Write @ 100s for a time, or @ step=100 for a training step."),
    ("lgos",): (2, "(Did you mean one of: 'logs', 'ls'?)"),
    ("logs", "--flollow"): (2, "Did you mean one of: '--color', '--follow'"),
    ("profile", "live", "--steps", "0"): (2, "0 is not in the range"),
    ("stacks", "--run", "over"): (1, "The run over is not live."),
    ("rm", "live"): (1, "live"),
    ("wait", "nosuch"): (2, "There is no run 'nosuch'"),
    ("attach", "nosuch"): (2, "There is no run 'nosuch'"),
    ("logs", "over", "-n", "9" * 20): (0, ""),
    ("top", "live", "--count", "9" * 20, "-i", "1e300"): (2, "longer than any job"),
    ("down", "live", "-t", "1e300"): (2, "longer than any job"),
    ("chaos", "--runs", "9" * 20, str(ROLES)): (2, "is not in the range 1<=x<=100000"),
    ("chaos", "--parallel", "9" * 20, str(ROLES)): (2, "is not in the range 1<=x<=1000"),
    ("chaos", "--rate", "nan", str(ROLES)): (2, "'nan' is not a number"),
    ("chaos", "--tolerance", "nan", str(ROLES)): (2, "'nan' is not a number"),
    ("chaos", "--tolerance", "inf", str(ROLES)): (2, "'inf' is not a number"),
    ("up", "-f", ""): (2, "-f is empty. Name a job file, or leave it out."),
    ("warm", "start", "--preload", ""): (2, "--preload '' can't be the name of a module."),
    ("down", "nosuch"): (2, "There is no run 'nosuch'"),
    ("prune", "--keep", "-1"): (2, "-1 is not in the range"),
    ("prune", "--older-than", ""): (2, "is not a duration"),
    ("completion", "nosuch"): (2, "nosuch"),
    ("nosuch",): (2, "No such command 'nosuch'"),
    ("",): (2, "No such command ''"),
}


def call(*words: str) -> Result:
    """Call a command in this process, which takes a tenth of the time of another one."""
    return CliRunner().invoke(cli, words, auto_envvar_prefix="CLUSTERKIT")


@pytest.fixture
def runs(ck: Clusterkit, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home with one run that is over, and one that is live; and a directory for what `init` writes."""
    ck("up", "--run-id", "over", ROLES, "--steps", "2")
    ck.up("--run-id", "live", *JOB, ROLES, "--steps", "1000000")
    for name in [name for name in os.environ if name.startswith("CLUSTERKIT")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CLUSTERKIT_HOME", str(ck.home))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("runs")
def test_no_arguments_are_answered_with_a_traceback() -> None:
    """Too few words, too many, empty ones, and runs that are over, live, or not there, for each command."""
    bad = []
    for command in CALLS:
        for form, words in FORMS.items():
            if form in LASTING.get(" ".join(command), ()):
                continue
            result = call(*command, *words)
            Path("job.toml").unlink(missing_ok=True)  # of `init`: `up` takes it
            if not isinstance(result.exception, SystemExit | None) or (result.exit_code and not result.output.strip()):
                bad.append(f"{' '.join((*command, *map(repr, words)))}: {result.exception!r}")
    assert not bad


@pytest.mark.usefixtures("runs")
def test_what_is_said_to_wrong_arguments() -> None:
    """What is wrong, and with exit code 2 where nobody could mean it."""
    for words, (code, text) in SAID.items():
        result = call(*words)
        assert (words, result.exit_code, result.exception.__class__ in (SystemExit, type(None))) == (words, code, True)
        assert text in result.output, f"{words}: {result.output}"
