"""What TensorFlow's tutorials write, and programs that were made after them: they run unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(180)]
long = pytest.mark.long
Start = Callable[..., Up]
TUTORIALS = CHILDREN / "tutorials"


def check(run: Up, steps: int, restarts: int = 0) -> None:
    """Success, after so many restarts; the steps are known, although no program reports any."""
    assert run.wait(160) == 0, run.output[-6000:]
    assert run.result["restarts"] == restarts, run.output[-6000:]
    assert run.result["last_step"] == steps


def test_fit_on_workers_that_count_themselves_and_save_each_to_a_place_of_its_own(up: Start, tmp_path: Path) -> None:
    """`json.loads(os.environ["TF_CONFIG"])` for the number of workers; per-worker temporary directories."""
    run = up("--workers", "2", TUTORIALS / "main.py", tmp_path / "model")
    check(run, steps=20)
    assert len(re.findall(r"loss fell True", run.output)) == 2
    assert "loaded predicts (3, 2)" in run.output
    assert sorted(path.name for path in (tmp_path / "model").glob("*.keras")) == ["model.keras"]


@pytest.mark.parametrize("how", ["function", pytest.param("dataset", marks=long)])
def test_a_custom_loop_over_a_distributed_dataset(up: Start, how: str) -> None:
    """`distribute_datasets_from_function` and `experimental_distribute_dataset`; all workers have the same weights."""
    run = up("--workers", "2", TUTORIALS / "loop.py", how)
    check(run, steps=20)
    assert len(re.findall(r"loss fell True", run.output)) == 2
    weights = re.findall(r"weights (-?[\d.]+)", run.output)
    assert len(weights) == 2
    assert len(set(weights)) == 1


def test_the_experimental_names_of_a_parameter_server_program(up: Start) -> None:
    """Chief, workers and ps from one file, which looks at its own role."""
    run = up("--workers", "2", "--ps", "2", TUTORIALS / "coordinator.py")
    check(run, steps=101)
    assert "loss is small True" in run.output


def test_a_cluster_in_one_process(up: Start) -> None:
    """As in the notebook: the program starts its own servers, and is one task."""
    run = up(TUTORIALS / "in_process.py")
    check(run, steps=80)
    assert "loss is small True" in run.output


@long
def test_a_dataset_creator_and_callbacks_with_the_coordinators_code_alone(up: Start) -> None:
    """`fit` with parameter servers: Keras 2, and clusterkit's own servers."""
    options = ("--workers", "2", "--ps", "1", "--keras", "2", "--servers", "builtin")
    run = up(*options, TUTORIALS / "creator.py")
    check(run, steps=60)
    assert "loss fell True" in run.output
    assert "files ['ckpt-1.index', 'ckpt-2.index', 'ckpt-3.index']" in run.output


@pytest.mark.parametrize("keras", ["3", pytest.param("2", marks=long)])
def test_a_fit_with_its_usual_callbacks_is_killed_and_continues(up: Start, tmp_path: Path, keras: str) -> None:
    """All workers name the same files; the backup of the last whole epoch is where both resume."""
    run = up(
        "--workers", "2", "--keras", keras, "--fault", "kill worker:1 @ step=35", TUTORIALS / "callbacks.py", tmp_path
    )
    check(run, steps=60, restarts=1)
    assert len(re.findall(r"epochs \[3, 4, 5\] step 60", run.output)) == 2
    rows = (tmp_path / "log.csv").read_text().splitlines()
    assert [row.partition(",")[0] for row in rows] == ["epoch", *"012345"]
    models = [f"epoch-{epoch}/model.keras" for epoch in range(1, 7)]
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files >= {*models, "newest.weights.h5"}
    assert not [path for path in tmp_path.rglob("*") if "workertemp" in path.name or path.suffix == ".part"]


@long
def test_a_sidecar_evaluator_is_killed_and_so_is_a_worker(up: Start, tmp_path: Path) -> None:
    """`SidecarEvaluator`, which Keras 2 has: it goes on with the newest weights, and ends with the last ones."""
    faults = ("--fault", "kill evaluator:0 @ step=30", "--fault", "kill worker:1 @ step=50")
    run = up("--workers", "2", "--evaluator", "--keras", "2", *faults, TUTORIALS / "sidecar.py", tmp_path)
    check(run, steps=80, restarts=2)
    assert "evaluated 80 accuracy is good True" in run.output
    [ended] = run.events("AttemptEnded", task="evaluator:0", attempt=2)
    assert ended["exit"]["asked"] is None, "it ends by itself"
    steps = [event["step"] for event in run.events("Progressed", task="evaluator:0", attempt=2)]
    assert steps[-1:] == [80]
    assert len(list((tmp_path / "board").rglob("events.out.*"))) >= 1
