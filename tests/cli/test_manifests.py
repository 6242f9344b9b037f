"""`clusterkit manifests` prints Kubernetes objects, and keeps what is secret in them off the screen."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusterkit.backends.link.certificate import tls_context
from tests.commands import Clusterkit
from tests.terminal import on_terminal

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]

JOB = ("--run-id", "train-1", "--workers", "2", "train.py", "--steps", "3")


def kinds(text: str) -> list[str]:
    """The kinds of the objects, in order."""
    return [document["kind"] for document in yaml.safe_load_all(text)]


def test_a_job_becomes_a_jobset(ck: Clusterkit) -> None:
    """With its key, its volume and its policy; the program need not be here, and nothing is started."""
    out = ck("manifests", *JOB).out
    assert kinds(out) == ["Secret", "PersistentVolumeClaim", "NetworkPolicy", "JobSet"]
    assert out.startswith("# clusterkit run train-1: 2 workers on 2 hosts.\n# SECRET: this holds the run's key")
    assert not (ck.home / "runs").exists()


def test_the_key_is_one_that_agents_can_use(ck: Clusterkit, tmp_path: Path) -> None:
    """And another one each time."""
    keys = [next(yaml.safe_load_all(ck("manifests", *JOB).out))["stringData"]["agents.pem"] for _ in range(2)]
    assert keys[0] != keys[1]
    (tmp_path / "agents.pem").write_text(keys[0])
    (tmp_path / "agents.pem").chmod(0o600)
    tls_context(tmp_path / "agents.pem", is_server=True)


def test_a_file_is_for_its_owner_only(ck: Clusterkit, tmp_path: Path) -> None:
    """Also one that others could read before."""
    file = tmp_path / "job.yaml"
    file.touch(mode=0o644)
    assert ck("manifests", "-o", file, *JOB).out == ""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "JobSet" in kinds(file.read_text())


def test_what_is_no_file_keeps_its_mode(ck: Clusterkit, tmp_path: Path) -> None:
    """Root must not make /dev/null its own."""
    os.mkfifo(tmp_path / "pipe", 0o644)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        ck("manifests", "-o", tmp_path / "pipe", *JOB)
        assert os.read(reader, 10) == b"# clusterk"
    finally:
        os.close(reader)
    assert stat.S_IMODE((tmp_path / "pipe").stat().st_mode) == 0o644


def test_a_file_that_cannot_be_written_is_a_problem(ck: Clusterkit, tmp_path: Path) -> None:
    """In a sentence."""
    assert "can't be written: No such file or directory." in ck("manifests", "-o", tmp_path / "a/b", *JOB, code=2).err


@pytest.mark.parametrize("words", [JOB, ("--only-secret", "--run-id", "train-1")])
def test_no_secret_is_shown_on_a_terminal(home: Path, words: tuple[str, ...]) -> None:
    """The error says where to it can go instead."""
    with on_terminal(home, "manifests", *words) as shown:
        text = shown.finish()
    assert "PRIVATE KEY" not in text
    assert "would be shown on this terminal. Write it to a file with -o FILE, or pipe it." in " ".join(text.split())
    assert shown.process.returncode == 2


def test_without_its_secret_a_manifest_is_shown(home: Path) -> None:
    """It says how to make the Secret."""
    with on_terminal(home, "manifests", "--no-secret", *JOB) as shown:
        text = shown.finish()
    assert shown.process.returncode == 0
    assert "clusterkit manifests --only-secret --run-id train-1 | kubectl apply -f -" in text
    assert "kind: JobSet" in text


def test_the_secret_alone_is_the_one_that_was_left_out(ck: Clusterkit) -> None:
    """Same name, same key in it, same namespace."""
    alone: Any = yaml.safe_load(ck("manifests", "--only-secret", "--run-id", "train-1", "--namespace", "n").out)
    both: Any = next(yaml.safe_load_all(ck("manifests", "--namespace", "n", *JOB).out))
    assert alone["metadata"] == both["metadata"]
    assert alone["stringData"].keys() == both["stringData"].keys()


def test_a_job_file_is_read_here(ck: Clusterkit, tmp_path: Path) -> None:
    """Variables and tables go into the pod's own job file."""
    (tmp_path / "job.toml").write_text(
        f"program = '{tmp_path}/train.py'\nworkers = 1\nps = 1\n[env]\nA = 'é\"'\n[task.ps]\nargs = ['--serve']\n"
    )
    documents: list[Any] = list(yaml.safe_load_all(ck("manifests", "-f", tmp_path / "job.toml").out))
    assert [document["kind"] for document in documents][1] == "Secret"
    assert documents[1]["stringData"]["job.toml"] == '[env]\nA = "é\\""\n\n[task.ps]\nargs = ["--serve"]\n'
