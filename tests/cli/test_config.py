"""`clusterkit config` shows what `up` would start, and starts nothing."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusterkit.network.virtual import why_not
from tests.environment import clean_environment
from tests.support import CHILDREN, Command

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(60)]

Start = Callable[..., Command]
ROLES = str(CHILDREN / "roles.py")


def resolved(clusterkit: Start, *args: str | Path, **kwargs: Any) -> dict[str, Any]:
    """What `config --json` prints."""
    command = clusterkit("config", "--json", *args, **kwargs)
    assert command.wait(20) == 0, command.output
    loaded: dict[str, Any] = json.loads(command.output)
    return loaded


def test_every_task_is_shown_and_nothing_is_started(clusterkit: Start, home: Path) -> None:
    """TF_CONFIG, command and environment of each; no run directory is made."""
    shape = ("--workers", "2", "--ps", "1", "--evaluator")
    command = clusterkit("config", "--tasks", *shape, "--env", "A=1", "--show-env", ROLES, "--steps", "3")
    assert command.wait(20) == 0
    assert "# parameter server; the leader is chief:0" in command.output
    for task in ("chief:0", "worker:0", "worker:1", "ps:0", "evaluator:0"):
        assert f"\n# [{task}]\n" in command.output
        assert f"# CLUSTERKIT_TASK={task}\n" in command.output
    assert command.output.count(f"# command = {shlex.join([sys.executable, str(ROLES), '--steps', '3'])}\n") == 5
    assert command.output.count("\n# TF_CONFIG={") == 5
    assert command.output.count("\n# A=1\n") == 5
    assert not (home / "runs").exists()


def test_json_has_what_up_would_give_the_tasks(clusterkit: Start, home: Path) -> None:
    """Every task sees the same cluster and its own place in it; the evaluator is in nobody's cluster."""
    found = resolved(clusterkit, "--workers", "2", "--ps", "1", "--evaluator", ROLES)
    tasks = found["tasks"]
    assert list(tasks) == ["chief:0", "worker:0", "worker:1", "ps:0", "evaluator:0"]
    cluster = tasks["chief:0"]["TF_CONFIG"]["cluster"]
    assert {kind: len(endpoints) for kind, endpoints in cluster.items()} == {"chief": 1, "worker": 2, "ps": 1}
    for name, task in tasks.items():
        kind, _, index = name.partition(":")
        assert task["TF_CONFIG"] == {"cluster": cluster, "task": {"type": kind, "index": int(index)}}
        assert json.loads(task["env"]["TF_CONFIG"]) == task["TF_CONFIG"]
        assert task["command"] == [sys.executable, ROLES]
    assert tasks["worker:1"]["endpoint"] == cluster["worker"][1]
    assert found["job"]["shape"] == "parameter server"
    assert not (home / "runs").exists()


@pytest.mark.skipif(why_not(network=True, disk=False) is not None, reason="no virtual network here")
def test_addresses_of_a_virtual_network_are_shown(clusterkit: Start) -> None:
    """They are the ones that `up` has; the evaluator has one too, at which nobody looks for it."""
    found = resolved(clusterkit, "--workers", "1", "--ps", "1", "--evaluator", "--network", "virtual", ROLES)
    assert found["job"]["network"] == "virtual"
    assert {task: (plan["address"], plan["endpoint"]) for task, plan in found["tasks"].items()} == {
        "chief:0": ("10.77.0.1", "10.77.0.1:2222"),
        "worker:0": ("10.77.0.2", "10.77.0.2:2222"),
        "ps:0": ("10.77.0.3", "10.77.0.3:2222"),
        "evaluator:0": ("10.77.0.4", None),
    }
    assert found["tasks"]["ps:0"]["TF_CONFIG"]["cluster"]["worker"] == ["10.77.0.2:2222"]


def test_what_the_hosts_network_exposes_is_said(clusterkit: Start) -> None:
    """Where it is chosen, by default, and there alone: `up` would say it each time."""
    command = clusterkit("config", "--workers", "2", ROLES)
    assert command.wait(20) == 0
    assert "listen on every address of this machine (0.0.0.0)" in command.output


def test_a_single_task_has_no_tf_config(clusterkit: Start) -> None:
    """There is no cluster to tell of."""
    task = resolved(clusterkit, ROLES)["tasks"]["worker:0"]
    assert task["TF_CONFIG"] is None
    assert "TF_CONFIG" not in task["env"]


def test_a_tf_config_in_the_environment_is_warned_of(clusterkit: Start) -> None:
    """It would mean that somebody expects it to be used."""
    command = clusterkit("config", "--tasks", ROLES, env={"TF_CONFIG": '{"task": {"type": "ps", "index": 5}}'})
    assert command.wait(20) == 0
    assert "TF_CONFIG is set in the environment. It is ignored" in command.output
    assert '"index": 5' not in command.output


def test_a_job_file_is_resolved_from_its_own_directory(clusterkit: Start, tmp_path: Path) -> None:
    """Program, directories and interpreter are found beside the file, wherever the command is run."""
    place = tmp_path / "job"
    (place / "work").mkdir(parents=True)
    (place / "python").symlink_to(sys.executable)
    (place / "train.py").touch()
    (place / "job.toml").write_text(
        "program = 'train.py'\nargs = ['--all']\nworkers = 2\nps = 1\ncheckpoint-dir = 'saved'\n"
        "[env]\nA = '1'\nB = '1'\n"
        "[task.ps]\ncwd = 'work'\nargs = ['--serve']\npython = './python'\n[task.ps.env]\nB = '2'\n"
    )
    tasks = resolved(clusterkit, "-f", place / "job.toml", "--env", "C=3", "--show-env", cwd=tmp_path)["tasks"]
    worker, ps = tasks["worker:0"], tasks["ps:0"]
    assert worker["command"] == [sys.executable, str(place / "train.py"), "--all"]
    assert ps["command"] == [str(place / "python"), str(place / "train.py"), "--serve"]
    assert (worker["cwd"], ps["cwd"]) == (None, str(place / "work"))
    assert {name: worker["env"][name] for name in "ABC"} == {"A": "1", "B": "1", "C": "3"}
    assert {name: ps["env"][name] for name in "ABC"} == {"A": "1", "B": "2", "C": "3"}
    assert ps["env"]["CLUSTERKIT_CHECKPOINT_DIR"] == str(place / "saved")


def test_relative_paths_hold_where_the_tasks_run_elsewhere(clusterkit: Start, tmp_path: Path) -> None:
    """Program and interpreter are meant from where the command is run, not from the tasks' directory."""
    (tmp_path / "work").mkdir()
    (tmp_path / "python").symlink_to(sys.executable)
    (tmp_path / "train.py").touch()
    task = resolved(clusterkit, "--cwd", "work", "--python", "./python", "train.py", cwd=tmp_path)["tasks"]["worker:0"]
    assert task["command"] == [str(tmp_path / "python"), str(tmp_path / "train.py")]


def test_a_module_stays_a_module_where_a_directory_has_its_name(clusterkit: Start, tmp_path: Path) -> None:
    """Also where the tasks run elsewhere."""
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "__init__.py").touch()
    task = resolved(clusterkit, "--cwd", tmp_path, "-m", "train", cwd=tmp_path)["tasks"]["worker:0"]
    assert task["command"] == [sys.executable, "-m", "train"]


def test_a_command_is_the_file_that_was_named_or_one_in_path(clusterkit: Start, tmp_path: Path) -> None:
    """A file in the current directory needs no `./`; anything else is looked up where commands are."""
    (tmp_path / "program").write_text("#!/bin/sh\n")
    (tmp_path / "program").chmod(0o755)
    for name, command in (("program", str(tmp_path / "program")), ("true", "true")):
        assert resolved(clusterkit, name, "1", cwd=tmp_path)["tasks"]["worker:0"]["command"] == [command, "1"]


def test_what_up_refuses_config_refuses(clusterkit: Start, home: Path) -> None:
    """With the same message and exit code."""
    command = clusterkit("config", "--ps", "1", "gone.py")
    assert command.wait(20) == 2
    assert "There is no program gone.py" in command.output
    assert "parameter servers but no workers" in command.output


JOBS: dict[str, list[str]] = {  # option sets of which the job file is the same job
    "a program alone": ["train.py"],
    "arguments": ["--workers", "2", "train.py", "--steps", "3", "--name", 'a "b" \\ \t\n\x1b é 🙂', ""],
    "a module": ["-m", "train", "--", "--steps", "3"],
    "a parameter server": ["--workers", "2", "--ps", "1", "--evaluator", "--servers", "builtin", "train.py"],
    "no chief": ["--workers", "3", "--no-chief", "--no-patches", "train.py"],
    "durations": ["--grace-period", "1500ms", "--timeout", "2h", "--stall-timeout", "0", "--startup-timeout", "0.1",
                  "train.py"],
    "restarts": ["--restart", "always", "--restart-budget", "0", "--restart-backoff", "250ms", "--restart-scope",
                 "job", "train.py"],
    "fewer workers": ["--workers", "4", "--min-workers", "2", "train.py"],
    "environments": ["--env", "A=1", "--env", "B=x=y z", "--env", "C.D=\x1b[31m", "--env", "E=", "train.py"],
    "places": ["--cwd", "sub", "--python", "./python", "--checkpoint-dir", "saved", "train.py"],
    "faults": ["--fault", "kill worker:0 @ step=5", "--fault", "slow worker share=20% for=1s @ every=10s p=0.5",
               "--seed", str(2**64 - 1), "train.py"],
    "starts": ["--start", "cold", "--keras", "3", "--tf-config", "ours", "--progress-regex", r"step (\d+)", "train.py"],
    "preloads": ["--preload", "json", "--preload", "csv", "--cpus-per-task", "1", "train.py"],
    "an interpreter in PATH": ["--python", "python3", "--workers", "2", "train.py"],
    "a command in PATH": ["true", "1"],
    "a job file": ["-f", "given.toml"],
    "a job file and flags": ["-f", "given.toml", "--workers", "3", "--env", "A=9"],
}  # fmt: skip
GIVEN = """
program = 'train.py'
args = ['--all']
workers = 2
ps = 1
fault = ['kill any']
[env]
A = 1
[task.ps]
cwd = 'sub'
args = ['--serve']
python = './python'
[task.ps.env]
B = '2'
[task.worker]
args = []
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with what the option sets name."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "python").symlink_to(sys.executable)
    (tmp_path / "train.py").touch()
    (tmp_path / "given.toml").write_text(GIVEN)
    return tmp_path


def called(*args: str, cwd: Path, home: Path) -> str:
    """What a command prints on standard output; it succeeds."""
    words = [sys.executable, "-m", "clusterkit", *args]
    env = {**clean_environment(home), "PYTHONPATH": str(cwd if "-m" in args else cwd.parent)}
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


def job_in(document: str, project: Path) -> dict[str, Any]:
    """The job of a JSON document, with its paths as the project's directory has them."""
    job: dict[str, Any] = json.loads(document)["job"]
    job["program"]["target"] = shutil.which(job["program"]["target"]) or job["program"]["target"]
    text = json.dumps(job).replace(f"{project}/", "").replace('"./', '"')
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if number % 3 else ()) for number, name in enumerate(JOBS)]
)
def test_the_job_file_is_the_same_job(project: Path, home: Path, name: str) -> None:
    """Wherever it lies and is used; and it is the job file of that job, too."""
    args = JOBS[name]
    text = called("config", "--show-secrets", *args, cwd=project, home=home)
    path = project / "elsewhere" / "job.toml"
    path.write_text(text)
    again = ["config", "--show-secrets", "-f", str(path)]
    where = project if "-m" in args else project / "elsewhere"
    assert called(*again, cwd=where, home=home) == text
    before = called("config", "--show-secrets", "--json", *args, cwd=project, home=home)
    assert job_in(called(*again, "--json", cwd=where, home=home), project) == job_in(before, project)


def test_what_a_job_file_can_not_hold_is_one_clear_error(clusterkit: Start) -> None:
    """Bytes that are no text."""
    command = clusterkit("config", "--show-env", "--env", os.fsdecode(b"A=\xff"), ROLES, os.fsdecode(b"\xfe"))
    assert command.wait(20) == 2
    for name in ("args", "A"):
        assert f"clusterkit: {name} has bytes that are not UTF-8 text, and can't be in a job file." in command.output


def test_hidden_variables_are_left_out_of_the_job(clusterkit: Start, tmp_path: Path) -> None:
    """A comment says so; a job with three asterisks for a password would be another one."""
    given = ["--env", "DB_PASS=hush", "--env", "OMP_NUM_THREADS=3", ROLES, "postgres://me:hush@db"]
    command = clusterkit("config", *given)
    assert command.wait(20) == 0
    text = command.output.partition("\n# single")[2]
    assert command.output.startswith("clusterkit: Some values are hidden")
    assert "# The value is hidden: use --show-env" in text
    assert '# DB_PASS = "***"' in text
    assert tomllib.loads(f"#{text}")["env"] == {"OMP_NUM_THREADS": "3"}
    assert tomllib.loads(f"#{text}")["args"] == ["postgres://***@db"]
    shown = clusterkit("config", "--show-secrets", *given)
    assert shown.wait(20) == 0
    assert tomllib.loads(shown.output)["env"] == {"OMP_NUM_THREADS": "3", "DB_PASS": "hush"}
    assert "postgres://me:hush@db" in shown.output


def test_the_batch_script_for_slurm_is_shown_as_comments(clusterkit: Start, home: Path) -> None:
    """The rest is the job file still; nothing is submitted, and Slurm is not needed."""
    command = clusterkit("config", "--engine", "slurm", "--hosts", "2", "--time", "10m", "--run-id", "r-1", ROLES)
    assert command.wait(20) == 0, command.output
    lines = command.output.splitlines()
    assert {"# #!/bin/sh", "# #SBATCH --nodes=2", "# #SBATCH --time=0-00:10:00"} <= set(lines)
    assert lines[-1].endswith(f"up --run-id r-1 --continue -f {home}/submitted/r-1/job.secret.toml")
    assert tomllib.loads(command.output)["engine"] == "slurm"
    assert not (home / "submitted").exists()
    wrong = clusterkit("config", "--engine", "slurm", "--hosts", "2", "--sbatch-arg=--nodes=3", ROLES)
    assert wrong.wait(20) == 2
    assert "--sbatch-arg --nodes=3: clusterkit sets --nodes itself. Use --hosts." in wrong.output
