"""`--servers builtin` without TensorFlow: which tasks run clusterkit's own server, and with what interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.job.options import GivenOptions, JobOptions
from clusterkit.job.plan import BUILTIN_SERVER
from clusterkit.store.store import RunStore
from clusterkit.supervisor.prepare import prepare
from clusterkit.warm.choice import launch_for
from clusterkit.warm.fork_client import Launch
from tests.support import CHILDREN, Command

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]

ROLES = str(CHILDREN / "roles.py")
STAND_IN = """
import json, sys
from types import SimpleNamespace


class Resolver:
    task_type, task_id, rpc_layer = "ps", 1, None
    cluster_spec = staticmethod(lambda: {"ps": 2})


class Server:
    def __init__(self, spec, **place):
        self.place = place

    def join(self):
        ours = [name for name in sys.modules if name.startswith("clusterkit.")]
        print(json.dumps({"place": self.place, "path": sys.path, "ours": sorted(ours)}))


distribute = SimpleNamespace(Server=Server, cluster_resolver=SimpleNamespace(TFConfigClusterResolver=Resolver))
"""


def test_an_interpreter_without_clusterkit_serves(tmp_path: Path) -> None:
    """It imports the clusterkit that started it, and has its own path again before it imports TensorFlow."""
    (tmp_path / "tensorflow.py").write_text(STAND_IN)
    progress = tmp_path / "progress"
    os.mkfifo(progress)
    reading = os.open(progress, os.O_RDONLY | os.O_NONBLOCK)
    config = {"cluster": {"ps": ["localhost:1", "localhost:2"]}, "task": {"type": "ps", "index": 1}}
    env = {"PYTHONPATH": str(tmp_path), "TF_CONFIG": json.dumps(config), "CLUSTERKIT_PROGRESS": str(progress)}
    try:
        told = subprocess.run(
            [sys.executable, "-S", BUILTIN_SERVER], env={**env, "CLUSTERKIT_ATTEMPT": "3"}, stdout=subprocess.PIPE
        )
        said = os.read(reading, 4096)
    finally:
        os.close(reading)
    assert told.returncode == 0
    assert json.loads(said) == {"kind": "ready", "attempt": 3}
    served = json.loads(told.stdout)
    assert served["place"] == {"job_name": "ps", "task_index": 1, "protocol": "grpc", "start": True}
    assert "clusterkit.training.server" in served["ours"]
    assert served["path"][0] == str(tmp_path)
    package = Path(BUILTIN_SERVER).parents[1]
    assert {str(package.parent), str(package), str(package / "training")} & set(served["path"]) == set()


def test_config_shows_who_serves(clusterkit: Callable[..., Command]) -> None:
    """Workers and ps, also from a job file, without the program's arguments."""
    command = clusterkit(
        "config", "--json", "--workers", "1", "--ps", "1", "--evaluator", "--servers", "builtin", ROLES, "--steps", "3"
    )
    assert command.wait(20) == 0, command.output
    tasks = json.loads(command.output[command.output.index("{\n") :])["tasks"]
    serves, runs = [sys.executable, BUILTIN_SERVER], [sys.executable, ROLES, "--steps", "3"]
    assert {name: task["command"] for name, task in tasks.items()} == {
        "chief:0": runs,
        "worker:0": serves,
        "ps:0": serves,
        "evaluator:0": runs,
    }


def test_a_job_without_parameter_servers_has_nobody_to_serve(
    clusterkit: Callable[..., Command], tmp_path: Path
) -> None:
    """So the option is refused, as a flag and in a job file."""
    (tmp_path / "job.toml").write_text(f"program = '{ROLES}'\nworkers = 2\nservers = 'builtin'\n")
    for args in (("--workers", "2", "--servers", "builtin", ROLES), ("-f", str(tmp_path / "job.toml"))):
        command = clusterkit("up", *args)
        assert command.wait(20) == 2
        assert "--servers builtin is for jobs with parameter servers" in command.output


@pytest.mark.parametrize("program", [ROLES, "sh"])
def test_servers_start_warm_whatever_the_program_imports(program: str) -> None:
    """They import TensorFlow, even if the coordinator's program does not seem to, or is not Python."""
    options: JobOptions = {"workers": 1, "ps": 1, "program": program}
    asked: list[JobOptions] = [{**options, "servers": "builtin"}, {**options, "servers": "program"}]
    builtin, own = (launch_for(prepare(GivenOptions(one)).job, RunStore().run("some")) for one in asked)
    assert isinstance(builtin, Launch)
    assert builtin.preload.tensorflow
    assert not (isinstance(own, Launch) and own.preload.tensorflow)
