"""Whatever is wrong before the start is one clear error: exit code 2, no traceback, nothing started, nothing left."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from clusterkit import Cluster
from clusterkit.words.errors import BadJob
from tests.environment import clean_environment
from tests.support import CHILDREN, ROOT

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.process, pytest.mark.timeout(60), pytest.mark.slow]

ROLES = str(CHILDREN / "roles.py")

FLAGS: dict[str, tuple[list[str], str]] = {  # what is wrong: the arguments, and a part of the message
    "no program": ([], "No program is given"),
    "a program that is missing": (
        ["gone.py"],
        "There is no program gone.py. It was looked for in {place} and in PATH.",
    ),
    "a program in a missing directory": (["a/b.py"], "There is no program a/b.py. It was looked for in {place}/a."),
    "a program that is missing, by its full path": (["/gone.py"], "There is no program /gone.py.\n"),
    "a program that is a directory": (["."], ". is a directory"),
    "a module that is missing": (["-m", "no_such_module"], "There is no module no_such_module"),
    "a module that is no name": (["-m", "../x"], "There is no module ../x"),
    "a program and a job file with a module": (["-f", "module.toml", ROLES, "-m"], ""),
    "negative workers": (["--workers", "-1", ROLES], "--workers is -1"),
    "negative parameter servers": (["--workers", "1", "--ps", "-2", ROLES], "--ps is -2"),
    "workers that are no number": (["--workers", "two", ROLES], "'two' is not a valid integer"),
    "no task": (["--workers", "0", ROLES], "no task that trains"),
    "only an evaluator": (["--evaluator", ROLES], "only an evaluator"),
    "parameter servers without workers": (["--ps", "2", ROLES], "parameter servers but no workers"),
    "parameter servers without a chief": (["--workers", "1", "--ps", "1", "--no-chief", ROLES], "needs its chief"),
    "a negative budget": (["--restart-budget", "-1", ROLES], "--restart-budget is -1"),
    "an interpreter that is missing": (["--python", "/no/python", ROLES], "/no/python does not start"),
    "an interpreter that fails": (
        ["--python", "./failing", ROLES],
        "failing does not start: it exits with code 1 (no luck)",
    ),
    "a directory that is missing": (["--cwd", "/no/where", ROLES], "/no/where"),
    "a directory that is a file": (["--cwd", ROLES, ROLES], "does not exist, or is not a directory"),
    "a checkpoint directory that is a file": (["--checkpoint-dir", ROLES, ROLES], "is a file"),
    "a checkpoint directory in a file": (["--checkpoint-dir", f"{ROLES}/x", ROLES], "Not a directory"),
    "a variable that is not there": (["--env", "NO_SUCH_NAME", ROLES], "The variable NO_SUCH_NAME is not set here"),
    "an environment without a name": (["--env", "=x", ROLES], "'=x' is not of the form NAME=VALUE or NAME"),
    "TF_CONFIG in the environment": (["--env", "TF_CONFIG={}", ROLES], "TF_CONFIG is set by clusterkit"),
    "no regular expression": (["--progress-regex", "step (", ROLES], "is not a regular expression"),
    "a regular expression without a group": (["--progress-regex", "step", ROLES], "has no group"),
    "no duration": (["--timeout", "soon", ROLES], "'soon' is not a duration"),
    "a negative duration": (["--grace-period", "-5", ROLES], "is not a duration"),
    "an endless duration": (["--grace-period", "inf", ROLES], "longer than any job"),
    "a duration that no clock has": (["--timeout", "99999999999999999999d", ROLES], "longer than any job"),
    "a fault in another age": (["--fault", "kill any @ 99999999999999999999s", ROLES], "longer than any job"),
    "tasks beyond number": (["--workers", "9" * 20, ROLES], "One machine is taken to hold 4096 at most"),
    "tasks beyond number, debugged": (
        ["--workers", "9" * 20, "--debugpy", "worker:0", ROLES],
        "One machine is taken to hold 4096 at most",
    ),
    "hosts beyond number": (["--hosts", "9" * 20, ROLES], "It has to be 16384 or less"),
    "a program with too long a name": (["x" * 300], "can't be read: file name too long"),
    "a directory with too long a name": (["--cwd", "x" * 300, ROLES], "can't be used: file name too long"),
    "an empty directory": (["--cwd", "", ROLES], "--cwd is empty"),
    "an empty checkpoint directory": (["--checkpoint-dir", "", ROLES], "--checkpoint-dir is empty"),
    "an empty interpreter": (["--python", "", ROLES], "--python is empty"),
    "an empty run to resume": (["--resume", "", ROLES], "--resume is empty"),
    "an empty job file": (["-f", ""], "-f is empty"),
    "an empty capture": (["--network", "virtual", "--pcap", "", ROLES], "--pcap is empty"),
    "an interface that is missing": (["--hosts", "2", "--workers", "2", "--interface", "no", ROLES], "no address here"),
    "no task to show": (["--only", "boss:1", ROLES], "'boss:1' is not a task"),
    "a task to show that the job has not": (["--only", "worker:7", ROLES], "--only worker:7: the job has no such task"),
    "no restart policy": (["--restart", "sometimes", ROLES], "'sometimes' is not one of"),
    "no way to start": (["--start", "tepid", ROLES], "'tepid' is not one of 'auto', 'warm', 'cold'"),
    "no module to preload": (["--preload", "a-b", ROLES], "--preload 'a-b' can't be the name of a module"),
    "a relative module to preload": (["--preload", ".a", ROLES], "--preload '.a' can't be the name of a module"),
    "a preload that is not used": (["--start", "cold", "--preload", "json", ROLES], "--preload is for warm starts"),
    "no option": (["--wrokers", "2", ROLES], "--workers"),
    "a run id with a slash": (["--run-id", "../x", ROLES], "can't be a run id"),
    "an empty run id": (["--run-id", "", ROLES], "can't be a run id"),
    "a run that is taken": (["--run-id", "taken", ROLES], "A run taken already exists"),
    "a run to resume that is missing": (["--resume", "nobody", ROLES], "There is no run 'nobody'"),
    "a job file that is missing": (["-f", "gone.toml"], "gone.toml can't be read"),
    "a job file that is a directory": (["-f", "."], "can't be read"),
    "a job file that is no text": (["-f", "binary.toml"], "is not UTF-8"),
}

FILES: dict[str, tuple[str, str]] = {  # what is wrong: a job file, and a part of the message
    "no TOML": ("workers = = 2", "is not valid TOML"),
    "no way to start": ("start = 'tepid'", "start: input should be 'auto', 'warm' or 'cold'"),
    "a preload that is no list": ("preload = 'json'", "preload: input should be a valid list"),
    "a preload that is no module": ("preload = ['a b']", "--preload 'a b' can't be the name of a module"),
    "an unknown key": ("wrokers = 2", "there is no key wrokers. Did you mean workers?"),
    "an unknown task type": (
        "[task.boss]\ncwd = '.'",
        "boss is not a task type. The types are chief, worker, ps, evaluator",
    ),
    "an unknown key of a task": ("[task.worker]\nevn = {}", "there is no key task.worker.evn. Did you mean env?"),
    "text for a number": ("workers = '2'", "workers:"),
    "a fraction of a task": ("workers = 1.5", "workers:"),
    "a negative count": ("workers = -2", "workers:"),
    "two chiefs": ("chief = 2", "chief:"),
    "a number for text": ("program = 3", "program:"),
    "an argument with NUL": ('args = ["a\\u0000"]', "has a character that can't be passed to a program"),
    "an argument of a task with NUL": ('[task.ps]\nargs = ["a\\u0000"]', "task.ps.args: 'a\\x00' has a character"),
    "an empty program": ("program = ''", "No program is given"),
    "an empty directory": ("cwd = ''", "--cwd is empty"),
    "text for a list": ("args = '--steps 3'", "args:"),
    "a list for a table": ("env = ['A=1']", "env:"),
    "no policy": ("restart = 'sometimes'", "restart:"),
    "no duration": ("timeout = 'soon'", "timeout: 'soon' is not a duration"),
    "a program that is missing": ("program = 'gone.py'", "There is no program"),
    "a name that is reserved": ("[task.ps.env]\nTF_CONFIG = '{}'", "TF_CONFIG is set by clusterkit"),
    "a program and a module": ("module = 'json'", "Both a program and a module"),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with what the arguments name."""
    (tmp_path / "failing").write_text("#!/bin/sh\necho no luck >&2\nexit 1\n")
    (tmp_path / "failing").chmod(0o755)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\0")
    (tmp_path / "home" / "runs" / "taken").mkdir(parents=True)
    return tmp_path


def attempt(
    args: Sequence[str | Path], cwd: Path, before: Sequence[str] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    """Run `clusterkit up` to its end."""
    return subprocess.run(
        [*before, sys.executable, "-m", "clusterkit", "up", *map(str, args)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**clean_environment(cwd / "home"), **env},
    )


def assert_refused(ran: subprocess.CompletedProcess[str], message: str, home: Path) -> None:
    """One clear error on stderr, exit code 2, and no run directory."""
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr
    assert (ran.returncode, ran.stdout) == (2, "")
    assert [run.name for run in home.glob("runs/*") if run.name != "taken"] == []


@pytest.mark.parametrize("wrong", FLAGS)
def test_a_bad_flag_is_one_clear_error(wrong: str, place: Path, home: Path) -> None:
    """Nothing is started, and the message names what is wrong."""
    args, message = FLAGS[wrong]
    assert_refused(attempt(args, place), message.replace("{place}", str(place)), home)


@pytest.mark.parametrize("program", [ROLES, "roles.py"])
def test_a_directory_that_was_deleted_is_one_clear_error(program: str, home: Path) -> None:
    """`rm -r` in another terminal; the shell stays in a directory that has no name any more."""
    words = ["sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh"]
    assert_refused(attempt([program], home.parent, words), "The current directory has been deleted.", home)


@pytest.mark.parametrize("wrong", FILES)
def test_a_bad_job_file_is_one_clear_error(wrong: str, place: Path, home: Path) -> None:
    """The message names the file or the key."""
    text, message = FILES[wrong]
    head = "" if "program =" in text else f"program = '{ROLES}'\n"
    (place / "job.toml").write_text(head + text + "\n")
    assert_refused(attempt(["-f", "job.toml"], place), message, home)


WRONG = {
    "workers": -1,
    "grace_period": "x",
    "restart": "sometimes",
    "fault": ["explode all"],
    "env": {"TF_CONFIG": "{}"},
}
TOLD = (
    "--workers is -1",
    "'x' is not a duration",
    "sometimes",
    "no action 'explode'",
    "TF_CONFIG is set by clusterkit",
    "no program nosuch.py",
)


def test_every_problem_is_told_at_once_from_python(home: Path) -> None:
    """Also those that can't be a flag at all."""
    with pytest.raises(BadJob) as raised:
        Cluster("nosuch.py", home=home, chief=2, kwargs={"a": 1}, **WRONG)  # type: ignore[arg-type]
    for message in (*TOLD, "chief=2", "kwargs are for functions"):
        assert message in str(raised.value)
    assert len(raised.value.problems) == len(TOLD) + 2


def test_every_problem_is_told_at_once_of_flags_and_file(place: Path, home: Path) -> None:
    """A flag that is no number, beside a file with a key that is none."""
    text = "grace-period = 'x'\nrestart = 'sometimes'\nfault = ['explode all']\nwrokers = 1\n[env]\nTF_CONFIG = '{}'\n"
    (place / "job.toml").write_text(text)
    ran = attempt(["-f", "job.toml", "--seed", "-1", "--stall-timeout", "y", "--workers", "-1", "nosuch.py"], place)
    messages = ("never", *(told for told in TOLD if told != "sometimes"), "wrokers", "--seed", "--stall-timeout: 'y'")
    for message in messages:
        assert_refused(ran, message, home)
    assert ran.stderr.count("\n") == len(messages) + 1


def test_every_problem_is_told_at_once_by_the_plugin(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the failing test's report, without a traceback of clusterkit's own."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(f"def test_it(cluster):\n    cluster('nosuch.py', **{WRONG!r})\n")
    ran = pytester.runpytest_subprocess("-p", "clusterkit.pytest_plugin", timeout=50)
    ran.assert_outcomes(failed=1)
    for message in TOLD:
        ran.stdout.fnmatch_lines([f"*{message}*"])


def test_every_problem_is_told_at_once(place: Path, home: Path) -> None:
    """Nobody has to start five times to learn of five mistakes."""
    args = ["--ps", "1", "--workers", "-1", "--cwd", "/no/where", "--progress-regex", "x", "--run-id", "a b", "gone.py"]
    ran = attempt(args, place)
    for message in ("--workers is -1", "/no/where", "has no group", "can't be a run id", "There is no program gone.py"):
        assert_refused(ran, message, home)
    assert ran.stderr.count("\n") == 6
    assert ran.stderr.endswith("Nothing was started.\n")


@pytest.fixture
def nobodys() -> Iterator[tuple[Path, list[str]]]:
    """A directory of an ordinary user's, and the words before a command that is to run as that user."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chown(name, 65534, 65534)
        become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        probe = subprocess.run([*become, sys.executable, "-c", "import clusterkit.cli"], cwd=ROOT, capture_output=True)
        if probe.returncode != 0:
            pytest.skip(f"another user can't run this interpreter: {probe.stderr.decode()[-200:]}")
        yield Path(name), become


def test_a_program_that_can_not_be_read_is_one_clear_error(nobodys: tuple[Path, list[str]]) -> None:
    """As is a job file."""
    place, become = nobodys
    for name in ("secret.py", "secret.toml"):
        (place / name).touch(mode=0o600)
    ran = attempt(["secret.py"], place, become)
    assert_refused(ran, "secret.py can't be read: permission denied", place / "home")
    ran = attempt(["-f", "secret.toml"], place, become)
    assert_refused(ran, "secret.toml can't be read: Permission denied", place / "home")


def test_a_run_directory_that_can_not_be_written_is_one_clear_error(nobodys: tuple[Path, list[str]]) -> None:
    """The message says where another one is chosen."""
    place, become = nobodys
    (place / "home").mkdir(mode=0o755)
    assert_refused(attempt([ROLES], place, become), "Permission denied", place / "home")
    ran = attempt([ROLES], place, become, CLUSTERKIT_HOME="/proc/nowhere")
    assert_refused(ran, "Set CLUSTERKIT_HOME to a writable directory", place / "home")
