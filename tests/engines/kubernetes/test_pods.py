"""The very commands of the pods, run on three virtual hosts with names and addresses of their own.

This is not Kubernetes: nobody schedules, mounts volumes or resolves services here. A container that ends is started
again by the test, as a pod's restart policy has it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit.backends.link.certificate import write_certificate
from clusterkit.engines.kubernetes.documents import FINAL
from clusterkit.engines.kubernetes.pods import (
    KEY,
    KEY_DIRECTORY,
    POD_NAME,
    SUPERVISOR_HOST,
    agent_words,
    supervisor_words,
)
from clusterkit.job.options import JobOptions
from clusterkit.store.directory import RunDirectory
from clusterkit.system.sweep import kill_until_gone
from clusterkit.words.outcome import SUSPENDED
from tests.engines.hosts import Hosts, why_no_hosts
from tests.engines.kubernetes.shapes import manifest_of
from tests.support import CHILDREN, ROOT, wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(120),
]
NAMES = ("supervisor", "agents-0", "agents-1")
MIMIC = CHILDREN / "mimic.py"
END = "end"


class Pods:
    """Three hosts that share a directory as the pods do their volume, and each the run's key as its Secret."""

    def __init__(self, place: Path, options: JobOptions) -> None:
        self.place = place
        self.manifest = manifest_of(options)
        self.home = place / "home"
        self.home.mkdir()
        write_certificate(place / KEY, "train-1")
        self.hosts = Hosts(("head", *NAMES), place)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        for name in NAMES:
            self.hosts[name].start()
            made = self.hosts[name].run("sh", "-c", f"mkdir -p {KEY_DIRECTORY} && cp {place / KEY} {KEY_DIRECTORY}")
            assert made.returncode == 0, made.stderr

    @property
    def run(self) -> RunDirectory:
        """The run."""
        return RunDirectory(self.home / "runs" / "train-1")

    def start(self, name: str) -> None:
        """Start a pod's container: with its command, in which Kubernetes has replaced the variables."""
        words = supervisor_words(self.manifest) if name == "supervisor" else agent_words()
        variables = {SUPERVISOR_HOST: "supervisor", POD_NAME: name}
        for variable, value in variables.items():
            words = [word.replace(f"$({variable})", value).replace("$$", "$") for word in words]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = [f"PATH={path}", f"PYTHONPATH={ROOT}", f"CLUSTERKIT_HOME={self.home}"]
        command = self.hosts[name].enter("env", *env, "sh", "-c", f'cd {ROOT} && exec "$@"', "pod", *words)
        with self.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def log(self, name: str) -> Path:
        """What the container prints."""
        return self.place / f"{name}.log"

    def logs(self) -> str:
        """What all of them have printed."""
        return "\n".join(f"{name}: {self.log(name).read_text()[-3000:]}" for name in self.running)

    def events(self, kind: str) -> int:
        """How many events of that kind there are in the journal."""
        journal = self.run.journal
        return journal.read_text().count(f'"event": "{kind}"') if journal.exists() else 0

    def wait_for(self, kind: str, count: int = 1) -> None:
        """Wait until there are so many."""
        wait_until(lambda: self.events(kind) >= count, 60, lambda: f"{kind}: {self.logs()}")

    def kill(self, name: str) -> int:
        """Kill every process of a container, as when it is out of memory; return its exit code when all are dead."""
        kill_until_gone(self.hosts[name].processes, 20)
        return self.running[name].wait(20)

    def let_end(self) -> None:
        """Let the job come to its end."""
        (self.place / END).touch()

    def end(self) -> None:
        """End everything."""
        self.hosts.end()
        for process in self.running.values():
            process.wait(20)


@pytest.fixture
def pods(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pods]:
    """The pods of a gang of two; MIMIC behaves as TensorFlow does, and waits with its last step for `let_end`.

    The parameter, where there is one, is the time for which a host may be cut off.
    """
    if (why := why_no_hosts()) is not None:
        pytest.skip(f"no virtual hosts here: {why}")
    args = ["--steps", "400", "--every", "40", "--gate", f"400:{tmp_path / END}"]
    options = JobOptions(program=str(MIMIC), args=args, workers=2, agent_timeout=getattr(request, "param", 30.0))
    made = Pods(tmp_path, options)
    yield made
    made.end()


def test_the_commands_find_each_other_and_run_the_job(pods: Pods) -> None:
    """Agents may start before the supervisor listens; all of them exit with 0 when the run is over."""
    for name in (*NAMES[1:], NAMES[0]):
        pods.start(name)
    pods.let_end()
    assert pods.running["supervisor"].wait(90) == 0, pods.logs()
    assert [pods.running[name].wait(20) for name in NAMES[1:]] == [0, 0], pods.logs()
    assert pods.events("RestartPlanned") == 0
    assert not any(pods.hosts[name].processes() for name in NAMES)


def test_an_agent_that_is_killed_is_started_again_and_takes_part_again(pods: Pods) -> None:
    """By its pod's restart policy, under the same name: its host's tasks are lost, and the job restarts there."""
    for name in NAMES:
        pods.start(name)
    pods.wait_for("Checkpointed")
    assert pods.kill("agents-1") != 0
    pods.start("agents-1")
    pods.let_end()
    assert pods.running["supervisor"].wait(90) == 0, pods.logs()
    assert pods.events("HostLost") == 1
    assert pods.events("RestartPlanned") == 1
    assert pods.running["agents-1"].wait(20) == 0, pods.logs()


@pytest.mark.parametrize("pods", [3.0], indirect=True)
def test_a_supervisor_that_is_killed_leaves_no_task_and_its_agents_ask_to_be_restarted(pods: Pods) -> None:
    """Their exit codes are not 0: nothing but the end of the run is an agent's success."""
    for name in NAMES:
        pods.start(name)
    pods.wait_for("Checkpointed")
    assert pods.kill("supervisor") != 0
    assert all(pods.running[name].wait(30) != 0 for name in NAMES[1:]), pods.logs()
    assert not any(pods.hosts[name].processes() for name in NAMES)


@pytest.mark.parametrize(
    ("pods", "how"), [(3.0, signal.SIGKILL), (30.0, signal.SIGTERM)], indirect=["pods"], ids=["killed", "moved"]
)
def test_a_run_continues_in_the_pod_that_replaces_its_supervisors(pods: Pods, how: signal.Signals) -> None:
    """With agents that were started again; its exit code is the run's, and so is that of a third one."""
    for name in NAMES:
        pods.start(name)
    pods.wait_for("Checkpointed", 2)
    if how is signal.SIGKILL:
        assert pods.kill("supervisor") not in FINAL
    else:
        os.kill(min(pods.hosts["supervisor"].processes()), how)
        assert pods.running["supervisor"].wait(30) == SUSPENDED, pods.logs()
    assert all(pods.running[name].wait(30) != 0 for name in NAMES[1:]), pods.logs()
    for name in NAMES:
        pods.start(name)
    pods.let_end()
    assert pods.running["supervisor"].wait(90) == 0, pods.logs()
    assert pods.events("Continued") == 1
    result = pods.run.result()
    assert result is not None
    assert (result.last_step, max(one.attempt for one in result.attempts)) == (400, 2)
    assert [pods.running[name].wait(20) for name in NAMES[1:]] == [0, 0], pods.logs()
    pods.start("supervisor")
    assert pods.running["supervisor"].wait(30) == 0, pods.logs()
