"""The choice of a run's fork server, or the reason for none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from clusterkit.job.keras import LEGACY, YES
from clusterkit.store.paths import RunPaths
from clusterkit.warm.choice import launch_for, launch_to_share
from clusterkit.warm.fork_client import Launch
from clusterkit.warm.warm_client import SharedServer
from clusterkit.words.job import JobSpec, Setup, StartMode
from clusterkit.words.model import Program, ProgramKind
from tests.histories import job

PATHS = RunPaths(PurePosixPath("/runs/r"))
FROM_KERAS = "from tensorflow.keras import layers\n"


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell chooses no Keras."""
    monkeypatch.delenv(LEGACY, raising=False)


def job_of(place: Path, text: str) -> JobSpec:
    """A job of one worker with this program."""
    (place / "main.py").write_text(text)
    return replace(job(workers=1), program=Program(ProgramKind.SCRIPT, str(place / "main.py")))


def launch_of(spec: JobSpec) -> Launch:
    """The job's fork server."""
    launch = launch_for(spec, PATHS)
    assert isinstance(launch, Launch), launch
    return launch


@pytest.mark.parametrize(
    ("keras", "shell", "env", "text", "legacy"),
    [
        (None, None, {}, "", False),
        (None, "1", {}, "", True),
        (None, "0", {}, "", False),
        (None, None, {LEGACY: "True"}, "", True),
        (None, "1", {LEGACY: "0"}, "", False),
        (2, None, {}, "", True),
        (3, "1", {}, "", False),
        (None, None, {}, f"import os\nos.environ['{LEGACY}'] = '1'\n", True),
        (None, "1", {}, f"import os\ndel os.environ['{LEGACY}']\n", False),
        (3, None, {}, f"import os\nos.environ.setdefault('{LEGACY}', '1')\n", False),
        (2, None, {}, f"import os\nos.environ['{LEGACY}'] = 'false'\n", False),
        (None, None, {}, f"import os, tensorflow\nos.environ['{LEGACY}'] = '1'\n", False),
    ],
)
def test_the_fork_server_imports_the_keras_of_the_tasks(
    keras: int | None,
    shell: str | None,
    env: dict[str, str],
    text: str,
    legacy: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the shell's environment, --env, --keras and the program; a warm server with the same Keras can serve it."""
    if shell is not None:
        monkeypatch.setenv(LEGACY, shell)
    launch = launch_of(replace(job_of(tmp_path, text + FROM_KERAS), keras=keras, setup=Setup(env=env)))
    assert (launch.whole_env.get(LEGACY) in YES) is legacy
    monkeypatch.setenv(LEGACY, str(int(legacy)))
    assert SharedServer(tmp_path, launch).key == SharedServer(tmp_path, launch_to_share(())).key
    monkeypatch.setenv(LEGACY, str(int(not legacy)))
    assert SharedServer(tmp_path, launch).key != SharedServer(tmp_path, launch_to_share(())).key


def test_a_program_that_hides_what_it_sets_starts_cold(tmp_path: Path) -> None:
    """Unless the user requests a warm start."""
    spec = job_of(tmp_path, f"import os\nos.environ['KERAS_BACKEND'] = str(1)\n{FROM_KERAS}")
    why = "main.py, line 2, may set KERAS_BACKEND, which is read when TensorFlow is imported"
    assert launch_for(spec, PATHS) == why
    assert launch_of(replace(spec, start=StartMode.WARM)).own_variables == {}
