"""TensorFlow jobs tested with the plugin alone, as a project that uses clusterkit would. The first one is README's."""

from __future__ import annotations

import inspect
import json
import os
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clusterkit.pytest_plugin import Clusters
from clusterkit.words.events import Checkpointed, Resumed, Spawned
from tests.support import ROOT

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(240), pytest.mark.cluster(timeout=200)]


@pytest.mark.cluster(workers=2, ps=1)
def test_training_goes_on_without_a_worker(cluster):  # type: ignore[no-untyped-def]
    run = cluster("workloads/ps_train.py", args=["--steps", 400, "--step-time", 0.02])
    run.wait_for_step(50)
    run.tasks["worker:1"].kill()
    run.wait_for_event("Spawned", task="worker:1", attempt=2)
    result = run.wait()
    assert result.last_step == 400
    assert result.restarts == 1


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_example_of_the_pages_is_the_test_above(page: str) -> None:
    """The pages show the test that runs here."""
    source = inspect.getsource(test_training_goes_on_without_a_worker)
    assert source.replace("  # type: ignore[no-untyped-def]", "") in (ROOT / page).read_text()


def block(page: str, pattern: str) -> str:
    """A block of code of a page."""
    found = re.search(rf"```python\n({pattern}.*?)```", (ROOT / page).read_text(), re.S)
    assert found is not None
    return found[1]


def run_the_exam_of_the_page(cluster: Clusters, program: str) -> None:
    """Call the test that docs/exam.md shows, with the two chapters on which it insists alone, to save time."""
    names: dict[str, Any] = {}
    exec(block("docs/exam.md", "def test_the_program_continues"), names)
    shorter = partial(cluster.exam, chapters=["equality", "resume"], budget="4m")
    Path("train.py").write_text(program)
    names["test_the_program_continues_where_it_was"](SimpleNamespace(exam=shorter))


@pytest.mark.long
def test_an_exam_fails_a_program_that_saves_nothing(
    cluster: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """README's program without its callback, by the test that docs/exam.md shows; it says why."""
    monkeypatch.chdir(tmp_path)
    callback = ", callbacks=[training.Backup()]"
    program = block("README.md", "import tensorflow")
    assert callback in program
    program = program.replace(callback, "")
    with pytest.raises(AssertionError) as failed:
        run_the_exam_of_the_page(cluster, program)
    (why,) = str(failed.value).splitlines()
    assert why.startswith("resume was not seen: the program saves no checkpoint")
    assert why in (ROOT / "docs/exam.md").read_text()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_an_exam_passes_the_same_program_with_a_backup(
    cluster: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As README shows it, with the callback that the exam names."""
    monkeypatch.chdir(tmp_path)
    run_the_exam_of_the_page(cluster, block("README.md", "import tensorflow"))


@pytest.mark.long
@pytest.mark.cluster(workers=2, ps=1)
def test_a_parameter_server_job_loses_its_chief(cluster: Clusters) -> None:
    """Only the chief restarts, and it resumes from the newest checkpoint."""
    run = cluster("workloads/ps_train.py", args=["--steps", 400, "--checkpoint-every", 40, "--step-time", 0.02])
    saved = run.wait_for_event(Checkpointed)
    run.tasks["chief:0"].kill()
    again = run.wait_for_event(Resumed, task="chief:0", attempt=2)
    assert saved.step <= again.step < 400
    assert run.wait_for_step(again.step + 1, task="chief:0", attempt=2) > again.step
    assert run.wait().last_step == 400
    assert {name: len(task.attempts) for name, task in run.tasks.items()} == {
        "chief:0": 2, "worker:0": 1, "worker:1": 1, "ps:0": 1,
    }  # fmt: skip


@pytest.mark.long
@pytest.mark.cluster(workers=2)
def test_a_gang_loses_a_worker(cluster: Clusters) -> None:
    """Both workers restart and resume from the same checkpoint."""
    run = cluster("workloads/mwms_train.py", args=["--steps", 150, "--checkpoint-every", 20, "--step-time", 0.03])
    saved = run.wait_for_event(Checkpointed)
    run.tasks["worker:1"].kill()
    resumed = [run.wait_for_event(Resumed, task=name, attempt=2).step for name in run.tasks]
    assert resumed[0] == resumed[1]
    assert resumed[0] >= saved.step
    result = run.wait()
    assert (result.last_step, result.restarts) == (150, 1)
    assert all(isinstance(run.wait_for_event(Spawned, task=name, attempt=2), Spawned) for name in run.tasks)


def total(mine: float) -> dict[str, Any]:
    """Add up a number over all workers, in a collective."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]

    @tf.function  # type: ignore[untyped-decorator]
    def everyone() -> Any:
        def one() -> Any:
            return tf.distribute.get_replica_context().all_reduce("sum", tf.constant(mine) + float(index))

        return strategy.run(one)

    return {"index": index, "total": float(everyone())}


def test_a_function_is_a_multi_worker_program(cluster: Clusters) -> None:
    """A function that is defined in a test runs in a cluster and returns its values to the test."""
    returns = cluster(total, args=[10.0], workers=2).wait().returns
    assert returns == {"worker:0": {"index": 0, "total": 21.0}, "worker:1": {"index": 1, "total": 21.0}}
