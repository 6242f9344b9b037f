"""`up --hosts`, with stand-ins for hosts: what is asked of a run reaches its tasks, and nothing of it outlives it."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.page.live import LiveRun
from clusterkit.page.model.entities import SeriesInfo
from clusterkit.store.directory import RunDirectory
from clusterkit.store.usage import UsageReader
from clusterkit.system import procfs
from tests.commands import Clusterkit
from tests.support import CHILDREN, Up, processes_of, wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]
Start = Callable[..., Up]
MIMIC = CHILDREN / "mimic.py"
JOB = ("--workers", "2", "--ps", "1", "--hosts", "2", "--restart-backoff", "0.1", MIMIC)


def test_nothing_outlives_a_supervisor_that_is_killed(up: Start, home: Path) -> None:
    """Its agents end with it, and their tasks with them."""
    run = up(*JOB, "--steps", "100000")
    run.wait_for("Checkpointed")
    [supervisor] = [pid for pid in procfs.children(run.process.pid) if procfs.argv_of(pid)]
    os.kill(supervisor, signal.SIGKILL)
    assert run.wait(20) == 1
    wait_until(lambda: not processes_of(home), 10, lambda: str(processes_of(home)))


def test_ctrl_c_ends_all_agents(up: Start, home: Path) -> None:
    """And leaves no spool in the temporary directory."""
    run = up(*JOB, "--steps", "100000")
    run.wait_for("Checkpointed")
    spools = f"clusterkit-agent-*/{run.run.name}"
    assert len([*Path(tempfile.gettempdir()).glob(spools)]) == 2
    os.kill(run.process.pid, signal.SIGINT)
    assert run.wait(20) == 130
    assert not processes_of(home)
    assert not [*Path(tempfile.gettempdir()).glob(spools)]


def test_what_is_asked_of_a_run_reaches_the_tasks_on_its_hosts(up: Start, ck: Clusterkit) -> None:
    """Stacks are shown, a fault is injected, a task restarts; `ps` has the hosts."""
    run = up(*JOB, "--steps", "100000", "--step-time", "0.02")
    run.wait_for("Checkpointed")
    run.wait_for("Ready", task="worker:1")  # without which the others work, too
    assert "mimic.py" in ck("stacks", "--timeout", "20s", "worker:1").out
    ck("fault", "stop worker:1 for=300ms")
    run.wait_for("FaultHealed")
    ck("restart", "worker:1")
    again = run.wait_for("Spawned", task="worker:1", attempt=2)
    assert again["where"].startswith("host1, pid ")
    rows = {row["task"]: row for row in ck.json("ps")["tasks"]}
    assert {name: row["host"] for name, row in rows.items()} == {
        "chief:0": "host0", "worker:0": "host0", "ps:0": "host0", "worker:1": "host1",
    }  # fmt: skip
    ck("down")
    assert run.wait(20) == 143


def test_what_tasks_on_hosts_use_is_kept_with_the_run(up: Start, ck: Clusterkit, tmp_path: Path) -> None:
    """CPU and memory of the tasks of every host, and its GPUs, in one sample, for the page's curves."""
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho '3, 35, 1024'\n")
    tool.chmod(0o755)
    path = f"{tool.parent}:{os.environ['PATH']}"
    run = up(*JOB, "--steps", "100000", "--step-time", "0.02", env={"PATH": path})
    run.wait_for("Checkpointed")
    reader, names = UsageReader(run.run / "usage.jsonl"), {"chief:0", "worker:0", "worker:1", "ps:0"}
    samples = wait_until(
        lambda: [one for one in reader.new() if {*map(str, one.tasks)} == names], 30, "a sample of all tasks"
    )
    assert all(memory > 1 << 20 for _, memory in samples[-1].tasks.values())
    assert samples[-1].gpus == dict.fromkeys(("3 on host0", "3 on host1"), (35.0, 1 << 30))
    page = LiveRun(RunDirectory(run.run))
    page.update()
    series = [one for one in page.model.board.entities().values() if isinstance(one, SeriesInfo)]
    assert names == {one.task for one in series if one.name == "cpu"}
    assert {one.task for one in series if one.name == "gpu"} == {"gpu:3 on host0", "gpu:3 on host1"}
    assert all(row["memory"] > 1 << 20 for row in ck.json("ps")["tasks"])
    ck("down")
    assert run.wait(20) == 143


def test_a_program_on_a_host_that_is_not_python_sends_no_stacks(up: Start, ck: Clusterkit) -> None:
    """It is not told to be paused, which only its agent could know."""
    run = up("--hosts", "1", "/bin/sleep", "600")
    run.wait_for("Spawned")
    said = ck("stacks", "--timeout", "0.5").out
    assert said.startswith("worker:0 sent no stacks: it is not a Python program,")
    assert not [*(run.run / "stacks").glob("worker*")], "nothing was written for it"
    ck("down")
    assert run.wait(20) == 143


def test_a_run_waits_for_agents_that_somebody_starts(up: Start, clusterkit: Callable[..., Up], home: Path) -> None:
    """With the key of the run, at the port that was asked for."""
    run = up("--engine", "agents", "--run-id", "r-1", "--listen", "127.0.0.1:27077", *JOB, "--steps", "40")
    key = home / "runs" / "r-1" / "agents.pem"
    wait_until(key.exists, 20, "the key")
    agents = [
        clusterkit("agent", "--connect", "127.0.0.1:27077", "--key", key, "--host", f"n{number}") for number in (1, 2)
    ]
    assert run.wait(30) == 0, run.output
    assert [agent.wait(10) for agent in agents] == [0, 0]
    assert set(run.events("Placed")[0]["hosts"].values()) == {"n1", "n2"}


def test_a_second_agent_with_the_name_of_one_that_is_there_is_turned_away(
    up: Start, clusterkit: Callable[..., Up], home: Path
) -> None:
    """In the place of the first, it would start tasks that run there already."""
    run = up("--engine", "agents", "--run-id", "r-1", "--listen", "127.0.0.1:27078", "--hosts", "1", MIMIC,
             "--steps", "100000")  # fmt: skip
    key = home / "runs" / "r-1" / "agents.pem"
    wait_until(key.exists, 20, "the key")
    words = ("agent", "--connect", "127.0.0.1:27078", "--key", key, "--host", "n1")
    first = clusterkit(*words)
    run.wait_for("Checkpointed")
    second = clusterkit(*words)
    assert second.wait(20) == 1
    assert "The run has an agent with the name n1 already. Choose another one with --host." in second.output
    assert run.wait_for("Noted")["text"] == "A second agent with the name n1 was turned away."
    os.kill(run.process.pid, signal.SIGINT)
    assert run.wait(20) == 130
    assert first.wait(20) == 0
    assert (len(run.events("Spawned")), run.events("HostLost")) == (1, [])


def test_ctrl_c_ends_a_run_that_waits_for_agents(up: Start, home: Path) -> None:
    """None will come; nothing was started."""
    run = up("--engine", "agents", "--run-id", "r-1", *JOB)
    wait_until((home / "runs" / "r-1" / "agents.pem").exists, 20, "the key")
    began = time.monotonic()
    os.kill(run.process.pid, signal.SIGINT)
    assert run.wait(20) != 0
    assert time.monotonic() - began < 10
    assert "0 of 2 hosts were ready: the run was asked to end" in run.output


def spool_of(run: Up, host: str) -> Path:
    """The directory that an agent keeps on the disk of its host."""
    agents = [pid for pid, command in processes_of(run.home).items() if f"--host {host} " in command]
    held = set[str]().union(*map(procfs.links, agents))
    [lock] = [path for path in held if "clusterkit-agent-" in path and path.endswith("lock")]
    return Path(lock).parent


def test_a_host_without_its_disk_is_avoided_after_two_attempts(up: Start) -> None:
    """The look before each restart finds it; then all tasks move, to the spare host too."""
    run = up("--spare-hosts", "1", *JOB, "--steps", "400", "--step-time", "0.02", "--every", "20")
    run.wait_for("Checkpointed")
    run.wait_for("Ready", task="worker:1")
    spool = spool_of(run, "host1")
    spool.rename(spool.with_name("gone"))
    [pid] = [event["where"].rpartition(" ")[2] for event in run.events("Spawned", task="worker:1")]
    os.kill(int(pid), signal.SIGKILL)
    assert run.wait(50) == 0, run.output
    failed = [event["failure"]["exit"]["error"] for event in run.events("Failed")]
    assert failed == [None, *[f"on host1, {spool} can't be used: No such file or directory"] * 2]
    [avoided] = run.events("HostAvoided")
    assert (avoided["host"], avoided["moves"]) == ("host1", True)
    first, last = (set(event["hosts"].values()) for event in run.events("Placed"))
    assert (first, last) == ({"host0", "host1"}, {"host0", "host2"})
    assert "Attempts on the host host1 failed twice for reasons of its own (worker:1 could not" in run.output
    assert run.events("Resumed")[-1]["step"] > 0


def test_a_ctrl_c_while_the_hosts_are_waited_for_has_its_exit_code(up: Start, home: Path) -> None:
    """As at any other time."""
    run = up("--engine", "agents", "--run-id", "r-1", "--listen", "127.0.0.1:0", *JOB)
    wait_until((home / "runs/r-1/agents.pem").exists, 30, "what agents need")
    run.signal(signal.SIGINT)
    assert run.wait(30) == 130
    assert "the run was asked to end while it waited for its hosts" in run.output


def test_hosts_that_speak_ipv6_train(up: Start) -> None:
    """With endpoints that have brackets, also after a restart, which looks for the peers' hosts."""
    run = up("--listen", "[::1]:0", "--fault", "kill worker:1 @ step=20", *JOB, "--steps", "60")
    assert run.wait(40) == 0, run.output
    [placed] = run.events("Placed")
    assert all(end.startswith("[::1]:") for end in placed["endpoints"].values())
    assert {event["attempt"] for event in run.events("Spawned", task="worker:1")} == {1, 2}
