"""Describes this task and its cluster, as read from TF_CONFIG and the environment. Standard library only."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

DEFAULT_TYPE = "worker"  # the task type outside a cluster, where the program is treated as worker:0
F = TypeVar("F", bound=Callable[..., object])


def do_not_convert(function: F) -> F:
    """Keep AutoGraph from converting a function, like `tf.autograph.experimental.do_not_convert`.

    Programs call this module's functions inside `tf.function` and dataset functions. AutoGraph would need more than a
    second to convert them and their callees, without any benefit. This decorator works without TensorFlow.
    """
    function.autograph_info__ = None  # type: ignore[attr-defined]
    return function


class TaskConfig(NamedTuple):
    """This task's type and index, and the number of tasks of each type in its cluster (empty outside a cluster)."""

    task_type: str
    task_index: int
    sizes: dict[str, int]


@do_not_convert
def task() -> str:
    """Return this task's name, such as ``worker:1``; ``worker:0`` outside a cluster."""
    config = _task_config()
    return f"{config.task_type}:{config.task_index}"


@do_not_convert
def task_type() -> str:
    """Return this task's type: ``chief``, ``worker``, ``ps`` or ``evaluator``."""
    return _task_config().task_type


@do_not_convert
def task_index() -> int:
    """Return this task's index among the tasks of its type, from 0."""
    return _task_config().task_index


@do_not_convert
def in_cluster() -> bool:
    """Return whether this task is one of several that train together.

    The result is False in the evaluator, which is not a member of the cluster and should not create a distributed
    strategy.
    """
    config = _task_config()
    return config.task_type != "evaluator" and sum(config.sizes.values()) - config.sizes.get("evaluator", 0) > 1


@do_not_convert
def is_in_step() -> bool:
    """Return whether this is one of several workers that train in lockstep, as with MultiWorkerMirroredStrategy."""
    return in_cluster() and not has_ps()


@do_not_convert
def has_ps() -> bool:
    """Return whether the cluster has parameter servers."""
    return num_ps() > 0


@do_not_convert
def num_ps() -> int:
    """Return the number of parameter servers in the cluster."""
    return _task_config().sizes.get("ps", 0)


@do_not_convert
def is_coordinator() -> bool:
    """Return whether this task runs the ClusterCoordinator: the chief of a cluster with parameter servers."""
    return has_ps() and task_type() == "chief"


@do_not_convert
def is_evaluator() -> bool:
    """Return whether this task is the evaluator."""
    return task_type() == "evaluator"


@do_not_convert
def is_chief() -> bool:
    """Return whether this task is the one that writes shared files, such as exports.

    That task is the chief or, in a cluster with neither chief nor parameter servers, ``worker:0`` (TensorFlow's rule).
    A program outside a cluster is such a task, too. Every job has exactly one such task.
    """
    config = _task_config()
    if config.task_type == "chief":
        return True
    worker_0_is_chief = "chief" not in config.sizes and "ps" not in config.sizes
    return worker_0_is_chief and (config.task_type, config.task_index) == ("worker", 0)


@do_not_convert
def num_workers() -> int:
    """Return the number of tasks that compute gradients: the workers and, without parameter servers, the chief."""
    sizes = _task_config().sizes
    chiefs = 0 if "ps" in sizes else sizes.get("chief", 0)
    return (sizes.get("worker", 0) + chiefs) or 1


@do_not_convert
def attempt() -> int:
    """Return the number of this attempt, from 1 for the task's first start; 1 outside clusterkit.

    Raises:
        ValueError: CLUSTERKIT_ATTEMPT is not a number.
    """
    text = os.environ.get("CLUSTERKIT_ATTEMPT") or "1"
    if not text.isdecimal():
        raise ValueError(f"CLUSTERKIT_ATTEMPT is {text!r}, not a number. clusterkit sets it; do not change it.")
    return int(text)


@do_not_convert
def run_id() -> str:
    """Return the id of the run; the empty string outside clusterkit."""
    return os.environ.get("CLUSTERKIT_RUN_ID", "")


@do_not_convert
def restart_reason() -> str:
    """Return why this attempt was started, such as ``failure``, ``preempted`` or ``resume``; "" in the first one."""
    return os.environ.get("CLUSTERKIT_RESTART_REASON", "")


@do_not_convert
def checkpoint_dir(default: str = "checkpoints") -> str:
    """Return the absolute path of the job's checkpoint directory; outside clusterkit, the absolute path of `default`.

    The path is absolute because parameter servers write their own shards and may have another working directory.
    """
    return str(Path(os.environ.get("CLUSTERKIT_CHECKPOINT_DIR") or default).absolute())


@do_not_convert
def run_directory(default: str = ".") -> Path:
    """Return the absolute path of the run directory; outside clusterkit, the absolute path of `default`."""
    return Path(os.environ.get("CLUSTERKIT_RUN_DIR") or default).absolute()


@do_not_convert
def tensorboard_dir() -> str:
    """Return the absolute path of the directory for this task's TensorBoard files.

    For ``worker:1``, it is ``tensorboard/worker:1`` in the run directory. Outside clusterkit, it is
    ``tensorboard/worker:0`` in the working directory.
    """
    return str(run_directory() / "tensorboard" / task())


def _task_config() -> TaskConfig:
    # Not cached: a program or a test may set TF_CONFIG after importing this module.
    text = os.environ.get("TF_CONFIG", "")
    if not text.strip():
        return _without_cluster()
    try:
        return parse_tf_config(text)
    except ValueError as error:
        raise ValueError(f"TF_CONFIG cannot be used: {error} Its value is {text[:500]!r}.") from None


def _without_cluster() -> TaskConfig:
    name, _, index = os.environ.get("CLUSTERKIT_TASK", "").partition(":")
    return TaskConfig(name or DEFAULT_TYPE, int(index) if index.isdecimal() else 0, {})


def parse_tf_config(text: str) -> TaskConfig:
    """Parse the text of TF_CONFIG. Raises ValueError if it is malformed."""
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error}).") from None
    if not isinstance(config, dict):
        raise ValueError("it must be a JSON object with 'cluster' and 'task'.")
    sizes = _sizes(config.get("cluster", {}))
    if not sizes and "task" not in config:
        return _without_cluster()
    task_type, task_index = _own_task(config.get("task"))
    if sizes and task_type != "evaluator" and task_index >= sizes.get(task_type, 0):
        raise ValueError(f"its task is {task_type}:{task_index}, which is not in its cluster.")
    return TaskConfig(task_type, task_index, sizes)


def _sizes(cluster: object) -> dict[str, int]:
    if not isinstance(cluster, dict):
        raise ValueError("its 'cluster' must map task types to lists of 'host:port'.")
    for name, endpoints in cluster.items():
        # TensorFlow also accepts {"index": "host:port"}, for clusters in which indices are missing.
        if not isinstance(endpoints, (list, dict)):
            raise ValueError(f"its cluster's {name!r} must be a list of 'host:port'.")
    return {name: len(endpoints) for name, endpoints in cluster.items() if endpoints}


def _own_task(own: object) -> tuple[str, int]:
    if not isinstance(own, dict) or not isinstance(own.get("type"), str):
        raise ValueError("its 'task' must be an object with a 'type' and an 'index'.")
    index = own.get("index", 0)
    if not str(index).isdecimal():
        raise ValueError(f"its task's index is {index!r}, which is not a number from 0 up.")
    return own["type"], int(index)
