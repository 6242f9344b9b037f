"""Who gets which cores and GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.backends.local.resources import UsableGpus, gpus_here, visible
from clusterkit.job.devices import all_share_gpus, computing, crowding, in_order_of_need, shares_of, too_few, usual_env
from clusterkit.words.job import Devices, JobSpec, Setup
from clusterkit.words.model import TaskType
from tests.histories import job, task


def with_cores(spec: JobSpec, each: int, count: int) -> JobSpec:
    """On a machine whose cores begin at 4."""
    return replace(spec, devices=Devices(cpus=each, cores=tuple(range(4, 4 + count))))


def with_gpus(spec: JobSpec, each: int, *names: str) -> JobSpec:
    """On a machine with these GPUs."""
    return replace(spec, devices=Devices(gpus=each, names=names))


def cores(spec: JobSpec) -> dict[str, tuple[int, ...] | None]:
    """Every task's cores."""
    return {str(one): share.cores for one, share in shares_of(spec).items()}


def gpus(spec: JobSpec) -> dict[str, tuple[str, ...] | None]:
    """Every task's GPUs."""
    return {str(one): share.gpus for one, share in shares_of(spec).items()}


@pytest.mark.parametrize(
    ("spec", "order", "computes"),
    [
        (job(workers=2, ps=2, evaluator=1), "worker:0 worker:1 ps:0 ps:1 chief:0 evaluator:0", 2),
        (job(workers=2, chief=1, evaluator=1), "chief:0 worker:0 worker:1 evaluator:0", 3),
        (job(workers=1), "worker:0", 1),
    ],
)
def test_what_computes_steps_comes_first(spec: JobSpec, order: str, computes: int) -> None:
    """A coordinator computes none, a chief among peers does."""
    assert " ".join(map(str, in_order_of_need(spec))) == order
    assert computing(spec) == in_order_of_need(spec)[:computes]


def test_each_task_has_cores_of_its_own_while_there_are_enough() -> None:
    """In the order of need, and nobody shares any."""
    spec = with_cores(job(workers=2, ps=1, evaluator=1), 2, 10)
    assert cores(spec) == {
        "worker:0": (4, 5),
        "worker:1": (6, 7),
        "ps:0": (8, 9),
        "chief:0": (10, 11),
        "evaluator:0": (12, 13),
    }
    assert crowding(spec) is None
    assert too_few(spec) == []


def test_after_the_last_core_comes_the_first_again_and_who_shares_is_said() -> None:
    """The tasks that compute share last."""
    spec = with_cores(job(workers=2, ps=1), 2, 5)
    assert cores(spec) == {"worker:0": (4, 5), "worker:1": (6, 7), "ps:0": (4, 8), "chief:0": (5, 6)}
    assert crowding(spec) == (
        "4 tasks with --cpus-per-task 2 would take 8 cores, and there are 5 cores: worker:0 and ps:0 share core 4; "
        "chief:0 and worker:0 share core 5; chief:0 and worker:1 share core 6."
    )
    assert crowding(with_cores(job(workers=2), 1, 1)) == (
        "2 tasks with --cpus-per-task 1 would take 2 cores, and there is 1 core: worker:0 and worker:1 share core 4."
    )


def test_of_many_that_share_only_some_are_named() -> None:
    """One line of a console."""
    said = crowding(with_cores(job(workers=100), 1, 6))
    assert said is not None
    assert "worker:0, worker:6, worker:12, worker:18 and 13 more share core 4; " in said
    assert said.endswith("share core 7; 2 more groups of tasks share some.")


def test_without_the_options_nothing_is_said_to_a_task() -> None:
    """It sees the whole machine, as ever."""
    share = shares_of(job(workers=2))[task("worker:1")]
    assert (share.cores, share.gpus, share.env, usual_env(Devices())) == (None, None, {}, {})


def test_threads_are_as_many_as_cores_but_never_one_alone_that_runs_operations() -> None:
    """With one, a worker of a parameter-server job gets no step done."""
    assert usual_env(Devices(cpus=3)) == {
        "TF_NUM_INTRAOP_THREADS": "3",
        "TF_NUM_INTEROP_THREADS": "3",
        "OMP_NUM_THREADS": "3",
    }
    assert usual_env(Devices(cpus=1))["TF_NUM_INTEROP_THREADS"] == "2"


def test_gpus_are_for_the_tasks_that_compute_and_the_others_see_none() -> None:
    """No two tasks have the same one."""
    spec = with_gpus(job(workers=2, ps=1, evaluator=1), 2, "a", "b", "c", "d", "e")
    assert gpus(spec) == {
        "worker:0": ("a", "b"),
        "worker:1": ("c", "d"),
        "ps:0": (),
        "chief:0": (),
        "evaluator:0": (),
    }
    assert shares_of(spec)[task("worker:1")].env == {"CUDA_VISIBLE_DEVICES": "c,d"}
    assert shares_of(spec)[task("ps:0")].env == {"CUDA_VISIBLE_DEVICES": ""}
    assert usual_env(spec.devices) == {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    assert gpus(with_gpus(job(workers=1, chief=1), 1, "a", "b")) == {"chief:0": ("a",), "worker:0": ("b",)}


def test_no_gpu_for_anybody_can_be_asked_for_too() -> None:
    """--gpus-per-task 0, wherever there are some."""
    spec = with_gpus(job(workers=2), 0)
    assert gpus(spec) == {"worker:0": (), "worker:1": ()}
    assert (too_few(spec), usual_env(spec.devices)) == ([], {})


@pytest.mark.parametrize(
    ("spec", "why", "problem"),
    [
        (with_cores(job(workers=1), 4, 3), None, "--cpus-per-task is 4, and there are 3 cores here."),
        (
            with_gpus(job(workers=3, ps=1), 2, "a", "b"),
            None,
            "--gpus-per-task 2: 3 tasks take 6 in all, and there are 2 GPUs here.",
        ),
        (
            with_gpus(job(workers=1), 1),
            "there is no nvidia-smi here",
            "--gpus-per-task 1: 1 task takes 1 in all, and there is no nvidia-smi here.",
        ),
        (with_gpus(job(workers=1), 2, "a"), None, "--gpus-per-task 2: 1 task takes 2 in all, and there is 1 GPU here."),
    ],
)
def test_what_there_is_not_is_refused(spec: JobSpec, why: str | None, problem: str) -> None:
    """In a sentence with both numbers, or with the reason."""
    assert too_few(spec, why) == [problem]


def test_that_all_share_all_gpus_is_said_where_nothing_prevents_it() -> None:
    """Several tasks, GPUs, and no option or variable about them."""
    spec = job(workers=2, ps=1)
    assert all_share_gpus(spec, ["0"], {}) == (
        "All 4 tasks share the GPU, and TensorFlow takes the whole memory of each for the first task that uses it. "
        "Give tasks their own with --gpus-per-task 1, none with --gpus-per-task 0, or let them share with "
        "--env TF_FORCE_GPU_ALLOW_GROWTH=true."
    )
    assert "share all 3 GPUs" in (all_share_gpus(spec, ["0", "1", "2"], {}) or "")
    own = {TaskType.WORKER: Setup({"CUDA_VISIBLE_DEVICES": "0"})}
    for silent, names, inherited in (
        (spec, [], {}),
        (job(workers=1), ["0"], {}),
        (with_gpus(spec, 0), ["0"], {}),
        (replace(spec, setups=own), ["0"], {}),
        (replace(spec, setup=Setup({"TF_FORCE_GPU_ALLOW_GROWTH": "true"})), ["0"], {}),
        (spec, ["0"], {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}),
    ):
        assert all_share_gpus(silent, names, inherited) is None


@pytest.mark.parametrize(
    ("named", "names"),
    [
        ("0,1", ("0", "1")),
        (" 2 , GPU-8a1e ,MIG-GPU-8a1e/1/0,2", ("2", "GPU-8a1e", "MIG-GPU-8a1e/1/0")),
        ("1,-1,2", ("1",)),
        ("", ()),
        ("-1", ()),
    ],
)
def test_a_variable_names_gpus_as_cuda_reads_it(named: str, names: tuple[str, ...]) -> None:
    """Up to the first that is none; by number, UUID or MIG name."""
    assert visible(named) == names


def test_what_clusterkit_may_use_is_all_that_there_is_to_hand_out() -> None:
    """Nobody else is asked then."""
    assert gpus_here({"CUDA_VISIBLE_DEVICES": "3,1"}) == UsableGpus(("3", "1"))
    hidden = gpus_here({"CUDA_VISIBLE_DEVICES": "-1"})
    assert hidden == UsableGpus((), "CUDA_VISIBLE_DEVICES=-1 hides every GPU from clusterkit")
