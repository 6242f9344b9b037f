"""The persistent server: started by a run, found by the next one, gone with its terminal."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit.system import procfs
from clusterkit.warm import shared_servers
from clusterkit.warm.choice import launch_to_share
from clusterkit.warm.warm_client import warm_dir
from tests.environment import clean_environment
from tests.servers import WORLD, Commands, Warm, short_home
from tests.support import processes_of, wait_until
from tests.terminal import on_terminal

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture
def home() -> Iterator[Path]:
    """Sockets are in it."""
    with short_home() as path:
        yield path


class Shell:
    """A terminal's shell, in which `up` is typed. pytest's own session may have no leader, as under cron."""

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        self.home = home
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(["sh"], stdin=pipe, stdout=pipe, env=env, start_new_session=True, text=True)

    def up(self, *args: str | Path, code: int = 0, **env: str) -> str:
        """Run `up` to its end; what it prints."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        variables = [f"{name}={value}" for name, value in env.items()]
        words = ["env", *variables, sys.executable, "-m", "clusterkit", "up", *map(str, args)]
        self.process.stdin.write(f"{shlex.join(words)} >{self.home}/output 2>&1 </dev/null; echo $?\n")
        self.process.stdin.flush()
        ended, printed = self.process.stdout.readline(), (self.home / "output").read_text()
        assert ended == f"{code}\n", printed
        return printed


@pytest.fixture
def shell(home: Path, warm: Warm) -> Iterator[Shell]:
    """A shell that `warm auto` was typed in; its session ends after the test."""
    warm("auto")
    made = Shell(home, clean_environment(home) | warm.env)
    yield made
    made.process.kill()
    made.process.communicate()


def kept_pid(warm: Warm) -> int:
    """The only server that is up."""
    (line,) = warm("status").splitlines()
    assert "it stays for another 15 min, or until the terminal closes" in line
    return int(line.partition("pid ")[2].partition(",")[0])


def test_the_second_run_comes_from_the_first_ones_server(shell: Shell, warm: Warm, clusterkit: Commands) -> None:
    """`ls` and `doctor` name the server, and it can be stopped; after --off, no run starts another one."""
    pids = []
    for name in ("r1", "r2"):
        shell.up("--run-id", name, WORLD)
        log = warm.home / "runs" / name / "tasks" / "worker:0" / "attempt-1.log"
        pids.append(json.loads(log.read_text())["imported_by"])
    assert pids == [kept_pid(warm)] * 2
    for command, words in (("ls", f"warm server: pid {pids[0]}"), ("doctor", f"A warm server is up: pid {pids[0]}")):
        looked = clusterkit(command, env=warm.env)
        looked.wait(30)
        assert words in looked.output
    assert "The running server was stopped." in warm("auto", "--off")
    shell.up(WORLD)
    warm("status", code=1)
    wait_until(lambda: procfs.is_zombie(pids[0]), 5, "its end")


def test_the_persistent_server_preloads_a_module_beside_the_program(shell: Shell, warm: Warm, tmp_path: Path) -> None:
    """The server imports from the program's directory, and the second run finds the module imported."""
    program = tmp_path / "train.py"
    program.write_text("import tensorflow\nimport beside\nprint(beside.IMPORTED_BY)\n")
    (tmp_path / "beside.py").write_text("import os\n\nIMPORTED_BY = os.getpid()\n")
    for name in ("r1", "r2"):
        shell.up("--run-id", name, "--preload", "beside", program)
        log = warm.home / "runs" / name / "tasks" / "worker:0" / "attempt-1.log"
        assert int(log.read_text()) == kept_pid(warm)


def test_one_server_is_kept(shell: Shell, warm: Warm) -> None:
    """That of the last run: another environment's ends, unless it has a run."""
    shell.up(WORLD)
    first = kept_pid(warm)
    shell.up(WORLD, OMP_NUM_THREADS="1")
    assert kept_pid(warm) != first
    wait_until(lambda: procfs.is_zombie(first), 5, "its end")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_the_server_ends_with_the_leader_of_its_session(shell: Shell, warm: Warm, number: signal.Signals) -> None:
    """The shell of its terminal, however that ends; then no process is left."""
    shell.up(WORLD)
    pid = kept_pid(warm)
    shell.process.send_signal(number)
    shell.process.wait(10)
    wait_until(lambda: procfs.is_zombie(pid), 5, "its end")
    warm("status", code=1)
    assert not processes_of(warm.home)


def test_a_server_that_fails_is_not_tried_at_each_run(shell: Shell, warm: Warm) -> None:
    """Each run goes on without it, and says how to try it again."""
    (warm.library / "tensorflow" / "__init__.py").write_text("import no_such_module")
    for _ in range(2):
        assert "`clusterkit warm auto` tries it again" in shell.up("--no-check", WORLD, code=1).replace("\n", " ")
    assert len(list((warm.home / "warm").glob("*.failed"))) == 1
    warm("auto")
    assert list((warm.home / "warm").glob("*.failed")) == []


def test_it_is_suggested_once_a_day(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with a clock that was set back; not once it is on."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(home))
    launch = launch_to_share(())
    assert "clusterkit warm auto" in (shared_servers.suggestion(launch) or "")
    assert shared_servers.suggestion(launch) is None
    told = warm_dir() / shared_servers.SUGGESTED_FILE
    for age in (shared_servers.SUGGEST_EVERY, -60.0):
        os.utime(told, (0, told.stat().st_mtime - age))
        assert shared_servers.suggestion(launch) is not None
    told.unlink()
    (warm_dir() / shared_servers.AUTO_FILE).touch()
    assert shared_servers.suggestion(launch) is None


def test_a_run_on_a_terminal_suggests_it(warm: Warm, home: Path) -> None:
    """In the last line; elsewhere, nothing is said."""
    piped = warm.up(WORLD)
    assert piped.wait(20) == 0
    said = [piped.output]
    for _ in range(2):
        with on_terminal(home, "up", WORLD, PYTHONPATH=warm.env["PYTHONPATH"]) as command:
            said.append(command.finish())
    assert ["clusterkit warm auto" in text for text in said] == [False, True, False]


def test_a_process_without_a_terminal_has_no_leader() -> None:
    """A pid that is free, and the first process of all."""
    free = subprocess.Popen(["true"])
    free.wait()
    assert shared_servers._session_leader(free.pid) is None
    assert shared_servers._session_leader(1) is None
