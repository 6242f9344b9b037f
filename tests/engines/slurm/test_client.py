"""Slurm's commands as clusterkit calls them: none there, hostile ones, and those of the test cluster."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from clusterkit.engines.slurm.answers import ControllerUnreachable, JobPhase, QueuedJob, SlurmError, UnexpectedAnswer
from clusterkit.engines.slurm.client import Slurm
from clusterkit.engines.slurm.reasons import EndCause, why_ended, why_it_waits
from clusterkit.engines.slurm.script import BatchRequest, agents_step, problems, script_of
from clusterkit.system.sweep import kill_and_wait
from clusterkit.text.printable import printable
from tests.engines.hosts import run
from tests.engines.slurm_cluster import PAUSE, SlurmCluster
from tests.support import wait_until

pytestmark = pytest.mark.process
T = TypeVar("T", bound=Callable[..., None])
SHOW = "import json, os, sys; json.dump([sys.argv[1:], os.getcwd(), os.environ['X']], sys.stdout)"


def needs_slurm(test: T) -> T:
    """Mark a test that needs the test cluster."""
    for mark in (pytest.mark.slurm, pytest.mark.slow, pytest.mark.timeout(180)):
        test = mark(test)
    return test


def fake(place: Path, code: str, within: float = 20) -> Slurm:
    """A Slurm whose every command is a shell script."""
    for name in ("sbatch", "squeue", "scontrol", "scancel", "srun"):
        (place / name).write_text(f"#!/bin/sh\n{code}\n")
        (place / name).chmod(0o755)
    return Slurm({"PATH": f"{place}:{os.environ['PATH']}", "SQUEUE_STATES": "RUNNING", "SLURM_CONF": "/x"}, within)


def test_a_machine_without_slurm_is_told_so(tmp_path: Path) -> None:
    """And where there is one."""
    with pytest.raises(SlurmError, match=r"Slurm's command sbatch can't be found. Use a login node"):
        Slurm({"PATH": str(tmp_path)}).submit("#!/bin/sh\n")


def test_a_command_that_does_not_answer_is_ended(tmp_path: Path) -> None:
    """Some would go on for minutes."""
    begun = time.monotonic()
    with pytest.raises(
        ControllerUnreachable, match=r"squeue did not answer within 0.3 s. See whether `scontrol ping` does"
    ):
        fake(tmp_path, "exec sleep 60", within=0.3).job(7)
    assert time.monotonic() - begun < 20


def test_slurms_own_sentence_is_shown(tmp_path: Path) -> None:
    """Without the prefixes, each once, and printable."""
    said = (
        r'printf "sbatch: error: invalid partition specified: \033[2Jx\nsbatch: error: Batch job failed\n" >&2; exit 1'
    )
    with pytest.raises(
        SlurmError, match=r"^Slurm refuses sbatch: invalid partition specified: ␛\[2Jx; Batch job failed.$"
    ):
        fake(tmp_path, said).submit("")


def test_a_command_that_fails_without_a_word_is_an_error(tmp_path: Path) -> None:
    """Its exit code is all there is."""
    with pytest.raises(SlurmError, match=r"^Slurm refuses scancel: exit code 9.$"):
        fake(tmp_path, "exit 9").cancel(7)


@pytest.mark.parametrize(
    "said",
    [
        "Unable to contact slurm controller (connect failure)",
        "Socket timed out on send/recv operation",
        "Zero Bytes were transmitted or received",
        "Message receive failure",
        "Communication connection failure",
        "Slurm backup controller in standby mode",
        "Rate limit exceeded, please retry momentarily",
        "Connection reset by peer",
    ],
)
def test_a_controller_that_can_not_answer_now_has_refused_nothing(tmp_path: Path, said: str) -> None:
    """Whoever follows a job, or is to requeue it, asks again."""
    with pytest.raises(ControllerUnreachable, match="does not answer squeue"):
        fake(tmp_path, f"echo 'slurm_load_jobs error: {said}' >&2; exit 1").job(7)


def test_variables_that_change_what_is_printed_are_left_out(tmp_path: Path) -> None:
    """What says where Slurm is stays."""
    slurm = fake(tmp_path, f"env > {tmp_path}/env")
    assert slurm.job(7) is None
    lines = (tmp_path / "env").read_text().splitlines()
    assert {"SLURM_CONF=/x", "SLURM_TIME_FORMAT=%s"} <= set(lines)
    assert not any(line.startswith("SQUEUE_") for line in lines)


def test_variables_do_not_override_what_the_run_asks_for(tmp_path: Path) -> None:
    """sbatch prefers them to the script's lines: a job without its warning, or an array, would be another one."""
    slurm = fake(tmp_path, f"env > {tmp_path}/env; echo 7")
    script = script_of(BatchRequest("run", 2, "/", "/out", time=60, arguments=["--account=a"]), ["true"])
    given = {f"SBATCH_{name}": "x" for name in (*LOST, *KEPT)}
    assert Slurm({**slurm._env, **given}).submit(script) == 7
    lines = (tmp_path / "env").read_text().splitlines()
    assert {line for line in lines if line.startswith("SBATCH_")} == {f"SBATCH_{name}=x" for name in KEPT}


LOST = (
    *("SIGNAL", "OPEN_MODE", "NO_REQUEUE", "REQUEUE", "NO_KILL", "ARRAY_INX", "TIMELIMIT", "JOB_NAME", "ACCOUNT"),
    *("OUTPUT", "ERROR", "INPUT", "WAIT"),
)
KEPT = ("PARTITION", "QOS", "CONSTRAINT", "RESERVATION")


def test_no_output_does_more_than_raise_an_error(tmp_path: Path) -> None:
    """Of any command; a site may wrap them."""
    chance = random.Random(seed := random.randrange(2**32))
    print(f"the seed is {seed}")
    slurm = fake(tmp_path, f"cat {tmp_path}/out; cat {tmp_path}/out >&2; exit $(cat {tmp_path}/code)")
    for _ in range(30):
        (tmp_path / "out").write_bytes(
            chance.choice([chance.randbytes(300), b"7|RUNNING|\n", b"", b"Invalid job id\n"])
        )
        (tmp_path / "code").write_text(str(chance.choice([0, 0, 1, 255])))
        for call in (lambda: slurm.job(7), lambda: slurm.submit(""), lambda: slurm.hostnames("n[1-3]")):
            try:
                call()
            except (SlurmError, UnexpectedAnswer) as error:
                text = str(error)
                assert printable(text) == text


@pytest.fixture
def client(slurm: SlurmCluster) -> Slurm:
    """The commands of the test cluster."""
    return Slurm({**os.environ, **slurm.env})


def wait_for(client: Slurm, job: int, phase: JobPhase) -> QueuedJob:
    """Wait until a job is in a phase."""
    found: QueuedJob = wait_until(
        lambda: seen if (seen := client.job(job)) is not None and seen.phase is phase else None,
        40,
        lambda: f"{phase}: {client.job(job)}",
        PAUSE,
    )
    return found


@needs_slurm
def test_every_word_of_a_script_reaches_the_batch_step(slurm: SlurmCluster, client: Slurm) -> None:
    """By way of sbatch, with names that have a meaning for it or for a shell; `%` in the log's name is no pattern."""
    odd = slurm.jobs / "a b%j '\"#:é"
    odd.mkdir()
    words = ["a b", "'q'", "\r\n", "\n#SBATCH --wrap=true\n", "$(id)", "é\udce9", "", "*", "\\"]
    allocation = BatchRequest("a 'run' #1 \"x\"", 2, str(odd), f"{odd}/log%j", environment={"X": "it's\r\n"}, time=90)
    assert problems(allocation) == []
    job = client.submit(script_of(allocation, [sys.executable, "-S", "-c", SHOW, *words]))
    assert wait_for(client, job, JobPhase.OVER).time_limit == 120
    assert json.loads((odd / "log%j").read_text()) == [words, str(odd), "it's\r\n"]


@needs_slurm
def test_an_agent_starts_on_each_host_that_is_named(slurm: SlurmCluster, client: Slurm) -> None:
    """And knows which one it is."""
    step = agents_step(["n1", "n3"], 2, str(slurm.jobs), ["echo", "agent"])
    allocation = BatchRequest("r", 3, str(slurm.jobs), f"{slurm.jobs}/log", cpus=2)
    job = client.submit(script_of(allocation, step))
    wait_for(client, job, JobPhase.OVER)
    logs = {path.name: path.read_text() for path in slurm.jobs.glob("n*.log")}
    assert logs == {"n1.log": "agent --host n1\n", "n3.log": "agent --host n3\n"}, slurm.jobs.joinpath(
        "log"
    ).read_text()


@needs_slurm
def test_a_command_runs_inside_a_job(slurm: SlurmCluster, client: Slurm) -> None:
    """Its exit code and output are its own; that srun can't run it is an error."""
    job = slurm.submit("exec sleep 100", "--nodes=2")
    slurm.wait_state(job, "RUNNING", deadline=20)
    ran = client.inside(job, "n2", ["sh", "-c", "uname -n; echo oh >&2; exit 3"])
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, b"n2\n", b"oh\n")
    with pytest.raises(SlurmError, match="Slurm refuses srun"):
        client.inside(job, "n3", ["true"])


@needs_slurm
def test_a_job_is_followed_from_its_wait_to_its_end(slurm: SlurmCluster, client: Slurm) -> None:
    """Why it waits, that it runs, that it is requeued and starts again soon, that it was cancelled."""
    first = slurm.submit("exec sleep 100", "--nodes=3", "--exclusive")
    slurm.wait_state(first, "RUNNING", deadline=20)
    listens = "trap 'exit 0' USR1; echo listens ${SLURM_RESTART_COUNT:-0}; while :; do sleep 0.1; done"
    job = slurm.submit(listens, "--nodes=3", "--exclusive", "--requeue", "--open-mode=append")
    slurm.wait(lambda: why(client, job) == "no hosts are free for it yet (Resources)", 20, "Resources")
    client.cancel(first)
    running = wait_for(client, job, JobPhase.RUNNING)
    slurm.wait_output(job, "listens 0", 20)
    assert (running.restarts, running.preempted) == (0, None)
    assert client.hostnames("n[1-3]") == ["n1", "n2", "n3"]
    client.requeue(job)
    slurm.wait(lambda: "BeginTime" in why(client, job), 30, "BeginTime")
    client.start_soon(job)
    assert wait_for(client, job, JobPhase.RUNNING).restarts == 1
    slurm.wait_output(job, "listens 1", 20)  # a signal to a script that has not begun is lost
    client.signal(job, "USR1")
    assert why_ended(wait_for(client, job, JobPhase.OVER), 1) is EndCause.ITSELF


@needs_slurm
def test_what_slurm_refuses_is_an_error_with_its_reason(slurm: SlurmCluster, client: Slurm) -> None:
    """Before anything waits in a queue."""
    place = str(slurm.jobs)
    with pytest.raises(SlurmError, match="invalid partition specified: nope"):
        client.submit(script_of(BatchRequest("r", 1, place, f"{place}/log", partition="nope"), ["true"]))
    with pytest.raises(SlurmError, match="unrecognized option '--nope'"):
        client.submit(script_of(BatchRequest("r", 1, place, f"{place}/log", arguments=("--nope",)), ["true"]))
    assert client.job(99999999) is None


@needs_slurm
def test_a_controller_that_is_away_is_told_from_a_refusal(slurm: SlurmCluster, client: Slurm) -> None:
    """It may come back; then the same question has an answer."""
    (controller,) = (pid for pid, line in slurm.head.processes().items() if line == "slurmctld")
    kill_and_wait([controller], time.monotonic() + 20)
    with pytest.raises(ControllerUnreachable, match="does not answer squeue: Unable to contact slurm controller"):
        client.job(1)
    assert run(slurm.head.enter("slurmctld", with_processes=True), 20).returncode == 0
    slurm.wait_idle(40)
    assert client.job(99999999) is None


def why(client: Slurm, job: int) -> str:
    """Why a job waits now."""
    seen = client.job(job)
    return "" if seen is None else why_it_waits(seen, time.time()).text.partition(";")[0]
