"""A job whose supervisor's host may be lost, as an agent on another host sees it."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.engines.slurm import engine
from clusterkit.engines.slurm.answers import QueuedJob, SlurmError
from clusterkit.engines.slurm.client import Slurm
from clusterkit.engines.slurm.engine import SlurmAllocation
from tests.engines.slurm.test_notices import RUNNING

pytestmark = pytest.mark.process

ANSWERS = """\
case "$0 $*" in
    *squeue*) echo "7|RUNNING|0|900|5000|NONE|1:00:00|n1|None|" ;;
    *sinfo*) echo "{state}" ;;
    *) echo "$0 $*" >> {place}/said ;;
esac
"""


def slurm_that_says(place: Path, code: str) -> Slurm:
    """A Slurm whose every command is a shell script."""
    for name in ("squeue", "sinfo", "scontrol"):
        (place / name).write_text(f"#!/bin/sh\n{code}\n")
        (place / name).chmod(0o755)
    return Slurm({"PATH": f"{place}:/usr/bin:/bin"})


@pytest.mark.parametrize(
    ("state", "expected"),
    [("down*", True), ("down", True), ("mixed", None), ("idle*", None), ("draining", None), ("", None)],
)
def test_a_job_is_requeued_once_the_host_is_down(tmp_path: Path, state: str, expected: bool | None) -> None:
    """`*`: it does not answer. That alone is not the loss of it."""
    slurm = slurm_that_says(tmp_path, ANSWERS.format(state=state, place=tmp_path))
    assert engine.requeue_if_lost(slurm, 7, 0) is expected
    said = tmp_path / "said"
    assert said.exists() == bool(expected)
    assert not expected or said.read_text().endswith("scontrol requeue 7\n")


class Known(Slurm):
    """A Slurm that knows one job, or none."""

    def __init__(self, known: QueuedJob | None) -> None:
        super().__init__({})
        self.known = known

    def job(self, job: int) -> QueuedJob | None:
        """Say what is known of it."""
        return self.known


@pytest.mark.parametrize(
    "job",
    [None, replace(RUNNING, state="PENDING"), replace(RUNNING, state="COMPLETING"), replace(RUNNING, restarts=2)],
    ids=["over for long", "requeued", "ending", "started again"],
)
def test_a_job_that_is_not_as_it_was_is_left_alone(job: QueuedJob | None) -> None:
    """Somebody else was faster."""
    assert engine.requeue_if_lost(Known(job), 7, 1) is False


def test_outside_of_a_job_there_is_nothing_to_requeue() -> None:
    """Agents that were started by hand."""
    assert engine.requeue_when_lost({}) is False


def test_a_command_that_a_signal_ends_is_repeated(tmp_path: Path) -> None:
    """Signals that end a job reach the commands in it, too; but not for ever."""
    once = f"[ -e {tmp_path}/killed ] || {{ touch {tmp_path}/killed; kill -TERM $$; }}\n"
    slurm = slurm_that_says(tmp_path, once + ANSWERS.format(state="idle", place=tmp_path))
    found = slurm.job(7)
    assert found is not None
    assert found.host == "n1"
    with pytest.raises(SlurmError, match=r"exit code -15"):
        slurm_that_says(tmp_path, "kill -TERM $$").job(7)


def test_an_odd_answer_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper of the site's prints something once: that is no word about the job."""
    once = f"[ -e {tmp_path}/odd ] || {{ touch {tmp_path}/odd; echo '*** maintenance ***'; exit 0; }}\n"
    slurm_that_says(tmp_path, once + ANSWERS.format(state="down*", place=tmp_path))
    monkeypatch.setattr(engine, "QUERY_EVERY", 0.01)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]"}
    assert engine.requeue_when_lost(env) is True


@pytest.mark.parametrize(
    ("hosts", "address"), [(["n1", "n2"], "192.0.2.1"), (["n2", "n1"], "192.0.2.1"), (["n1"], "127.0.1.1")]
)
def test_a_host_whose_name_is_a_loopback_address_is_told_by_the_one_that_leads_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: list[str], address: str
) -> None:
    """Debian writes `127.0.1.1 n1` into n1's /etc/hosts: agents on other hosts would call themselves."""
    slurm_that_says(tmp_path, f"printf '%s\\n' {' '.join(hosts)}")
    monkeypatch.setattr(socket, "gethostbyname", {"n1": "127.0.1.1", "n2": "192.0.2.2"}.__getitem__)
    monkeypatch.setattr(engine, "own_address", {("192.0.2.2", engine.ANY_PORT): "192.0.2.1"}.__getitem__)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURMD_NODENAME": "n1", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n"}
    assert SlurmAllocation(Path("/nowhere"), env=env).address == address


def test_a_host_without_an_address_is_one_sentence() -> None:
    """Its name is nobody's."""
    lost = SlurmAllocation(Path("/nowhere"), env={"SLURMD_NODENAME": "no-such-host.invalid"})
    with pytest.raises(SlurmError, match=r"^The address of this host, no-such-host\.invalid, is unknown: .*\.$"):
        _ = lost.address
