"""Environment values: no process of a run shows one on its command line, and no file of the run holds a secret."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit import Cluster
from clusterkit.system import procfs
from clusterkit.warm.choice import launch_to_share
from clusterkit.warm.warm_client import SharedServer, stop
from tests.commands import Clusterkit
from tests.servers import WORLD, Commands, Start, Warm, short_home
from tests.support import CHILDREN, Command, Up, processes_of, wait_until

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(90)]

ROLES = CHILDREN / "roles.py"
NAME = "DB_PASS"


class Onlooker:
    """Another user of the machine: reads every command line, again and again."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self.seen = dict[int, bytes]()
        self.told = set[bytes]()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def end(self) -> None:
        """Stop looking, and assert that there was something to see, but no value."""
        self._over.set()
        self._thread.join()
        assert any(b"clusterkit" in line for line in self.seen.values()), "nothing of the run was seen"
        assert not self.told

    def _look(self) -> None:
        while not self._over.is_set():
            for pid in procfs.all_pids():
                try:
                    line = Path(f"/proc/{pid}/cmdline").read_bytes()
                except OSError:
                    continue
                self.seen[pid] = line
                if self.secret.encode() in line:
                    self.told.add(line)


@pytest.fixture
def home() -> Iterator[Path]:
    """Sockets are in it."""
    with short_home() as path:
        yield path


@pytest.fixture
def secret() -> str:
    """A value that is nowhere else on this machine."""
    return f"hush-{secrets.token_hex(8)}"


@pytest.fixture
def onlooker(secret: str) -> Iterator[Onlooker]:
    """Looks from before a run begins until it is over."""
    looking = Onlooker(secret)
    yield looking
    looking.end()


def assert_not_stored(home: Path, secret: str) -> None:
    """No file of any run has it, but for what tasks write themselves."""
    files = [path for path in (home / "runs").rglob("*") if path.is_file() and path.suffix not in (".log", ".pkl")]
    assert any(path.name == "job.json" for path in files)
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


def value_in_task() -> str | None:
    """What a task has."""
    return os.environ.get(NAME)


def test_a_function(home: Path, secret: str, onlooker: Onlooker) -> None:
    """The tasks have the value, and nobody else."""
    with Cluster(value_in_task, workers=2, env={NAME: secret}, home=home, patience=60) as cluster:
        assert cluster.wait().returns == {"worker:0": secret, "worker:1": secret}
    assert_not_stored(home, secret)


def test_a_program(home: Path, secret: str, onlooker: Onlooker, tmp_path: Path) -> None:
    """Also where tasks are restarted."""
    env = {NAME: secret, "LEVEL": 3}
    args = ["--steps", 30, "--until", tmp_path / "go"]
    with Cluster(ROLES, args=args, workers=2, ps=1, env=env, home=home, patience=60) as cluster:
        cluster.tasks["worker:1"].kill()
        cluster.wait_for_event("Spawned", task="worker:1", attempt=2)
        (tmp_path / "go").touch()
        assert cluster.wait().last_step == 30
    assert_not_stored(home, secret)


def test_the_plugin(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, secret: str, onlooker: Onlooker
) -> None:
    """As a test of the user's gives it."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(
        f"""
        def test_it(cluster):
            cluster({str(ROLES)!r}, args=["--steps", 5], env={{{NAME!r}: {secret!r}}}).wait()
        """
    )
    pytester.runpytest_subprocess("-p", "clusterkit.pytest_plugin", timeout=60).assert_outcomes(passed=1)


def test_a_detached_run(ck: Clusterkit, monkeypatch: pytest.MonkeyPatch, secret: str, onlooker: Onlooker) -> None:
    """`--env NAME` takes the value from where it is typed."""
    monkeypatch.setenv(NAME, secret)
    run = ck.up("--env", NAME, "--workers", "2", ROLES, "--steps", "1000000")
    environments = [Path(f"/proc/{ck.task(f'worker:{n}')['pid']}/environ").read_bytes() for n in (0, 1)]
    assert all(f"{NAME}={secret}".encode() in environment for environment in environments)
    ck("down", run.name)
    assert_not_stored(ck.home, secret)


def test_a_value_that_was_typed(home: Path, up: Callable[..., Up], secret: str) -> None:
    """It stands in no command line of the run any more, and tasks have it."""
    forms = ("--env", f"{NAME}={secret}-1", f"--env=SECOND={secret}-2", "--env", "LEVEL_SHOWN=3", "--env", "TZ=UTC")
    run = up(*forms, "--workers", "2", ROLES, "--steps", "1000000")
    run.wait_for("Spawned", count=2)
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in [run.process.pid, *processes_of(home)]}
    assert len(lines) >= 4
    assert [line for line in lines.values() if secret.encode() in line] == []
    own = lines[run.process.pid].split(b"\0")
    assert f"{NAME}={'*' * (len(secret) + 2)}".encode() in own
    assert f"--env=SECOND={'*' * (len(secret) + 2)}".encode() in own
    assert b"TZ=UTC" in own
    assert b"1000000" in own
    tasks = [pid for pid in lines if f"{NAME}={secret}-1".encode() in Path(f"/proc/{pid}/environ").read_bytes()]
    assert len(tasks) == 2
    run.signal(2)
    assert run.wait(20) == 130, run.output


def test_secret_arguments(home: Path, up: Callable[..., Up], clusterkit: Commands, secret: str) -> None:
    """The program gets them, and what is stored and shown has none."""
    program = home.parent / "says.py"
    got = home.parent / "got.txt"
    program.write_text(f"import sys; open({str(got)!r}, 'w').write(str(sys.argv))")
    run = up("--run-id", "r-1", program, "--password", secret, f"--api-key={secret}", "--sigma", "0.5")
    assert run.wait(40) == 0
    assert secret in got.read_text()
    assert_not_stored(home, secret)
    for words in (("show", "r-1"), ("show", "--json", "r-1"), ("report", "--format", "md", "-o", "-", "r-1")):
        command = clusterkit(*words)
        assert command.wait(30) == 0, command.output
        assert secret not in command.output


def test_a_warm_server_keeps_no_secret(home: Path, up: Start, clusterkit: Commands, secret: str) -> None:
    """The run that starts the server has a variable; it is none of the server's."""
    warm = Warm(home, up, clusterkit)
    launch = launch_to_share(())
    env = {**launch.env, **warm.env, NAME: secret, "OMP_NUM_THREADS": "2"}
    server = SharedServer(home / "warm", replace(launch, env=env))
    (home / "warm").mkdir(parents=True, mode=0o700)
    status = server.start(60.0)
    try:
        environment = Path(f"/proc/{status['pid']}/environ").read_bytes()
        assert secret.encode() not in environment
        assert b"OMP_NUM_THREADS=2" in environment
    finally:
        assert stop(server.socket)


def test_a_warm_run(home: Path, up: Start, clusterkit: Commands, secret: str, onlooker: Onlooker) -> None:
    """The run's description travels to the warm server in a file without a name."""
    warm = Warm(home, up, clusterkit)
    warm.start()
    try:
        run = warm.up("--env", NAME, WORLD, env={NAME: secret})
        assert run.wait(30) == 0, run.output
        assert secret.encode() in run.log("worker:0")
        assert_not_stored(home, secret)
    finally:
        warm("stop")


def test_config_shows_secrets_on_demand(clusterkit: Callable[..., Command], secret: str) -> None:
    """Everything else is shown always."""
    for flags, shown in (
        ([], False),
        (["--tasks"], False),
        (["--json"], False),
        (["--show-secrets"], True),
        (["--show-secrets", "--tasks"], True),
        (["--show-secrets", "--json"], True),
    ):
        command = clusterkit("config", *flags, "--env", NAME, "--env", "LEVEL=3", ROLES, env={NAME: secret})
        assert command.wait(20) == 0
        assert (secret in command.output) is shown
        assert ("***" in command.output) is not shown
        assert "LEVEL" in command.output


def test_a_variable_that_is_not_there(clusterkit: Callable[..., Command]) -> None:
    """It is an error, rather than a task without it."""
    command = clusterkit("config", "--env", "NO_SUCH_VARIABLE", ROLES)
    assert command.wait(20) == 2
    assert "The variable NO_SUCH_VARIABLE is not set" in command.output


def test_a_run_that_is_watched_to_its_end(home: Path, up: Callable[..., Up], secret: str, onlooker: Onlooker) -> None:
    """In the foreground, with the value from the environment."""
    run = up("--env", NAME, "--workers", "2", ROLES, "--steps", "20", env={NAME: secret})
    wait_until(lambda: run.events("Spawned"), 30, "tasks")
    assert run.wait(40) == 0, run.output
    assert_not_stored(home, secret)
