"""What this task is in its cluster, read from TF_CONFIG and the environment; standard library only."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

ALONE = "worker"  # a program outside any cluster counts as worker:0


F = TypeVar("F", bound=Callable[..., object])


def plain(function: F) -> F:
    """Have autograph call a function as it is, as `tf.autograph.experimental.do_not_convert` does.

    These functions are asked inside of `tf.function` and dataset functions. Converting them, and what they call, takes
    autograph more than a second, and there is nothing in them to convert. Without TensorFlow it is a mere attribute.
    """
    function.autograph_info__ = None  # type: ignore[attr-defined]
    return function


class Role(NamedTuple):
    """This task's place, and how many tasks of each type are in its cluster (empty outside a cluster)."""

    task_type: str
    task_index: int
    sizes: dict[str, int]


@plain
def task() -> str:
    """This task's name, such as ``worker:1``; ``worker:0`` outside a cluster."""
    role = _role()
    return f"{role.task_type}:{role.task_index}"


@plain
def task_type() -> str:
    """``chief``, ``worker``, ``ps`` or ``evaluator``."""
    return _role().task_type


@plain
def task_index() -> int:
    """This task's number among the tasks of its type, from 0."""
    return _role().task_index


@plain
def in_cluster() -> bool:
    """Whether this task is one of several that train together.

    The evaluator stands beside the cluster, so for it this is False: it should not start a distributed strategy.
    """
    role = _role()
    return role.task_type != "evaluator" and sum(_training_sizes(role).values()) > 1


@plain
def has_ps() -> bool:
    """Whether the cluster has parameter servers."""
    return num_ps() > 0


@plain
def num_ps() -> int:
    """How many parameter servers the cluster has."""
    return _role().sizes.get("ps", 0)


@plain
def is_coordinator() -> bool:
    """Whether this task runs the ClusterCoordinator: the chief of a cluster that has parameter servers."""
    return has_ps() and task_type() == "chief"


@plain
def is_evaluator() -> bool:
    """Whether this task is the evaluator."""
    return task_type() == "evaluator"


@plain
def is_chief() -> bool:
    """Whether this task writes what only one task may write.

    That is the chief; worker:0 in a cluster with neither chief nor parameter servers (TensorFlow's own rule); and
    a program outside any cluster. There is exactly one in every job.
    """
    role = _role()
    if role.task_type == "chief":
        return True
    leaderless = "chief" not in role.sizes and "ps" not in role.sizes
    return leaderless and (role.task_type, role.task_index) == ("worker", 0)


@plain
def num_workers() -> int:
    """How many tasks compute gradients: the workers, and the chief too where there are no parameter servers."""
    sizes = _role().sizes
    chiefs = 0 if "ps" in sizes else sizes.get("chief", 0)
    return (sizes.get("worker", 0) + chiefs) or 1


@plain
def attempt() -> int:
    """Which start of this task this is, from 1; 1 outside clusterkit."""
    text = os.environ.get("CLUSTERKIT_ATTEMPT") or "1"
    if not text.isdecimal():
        raise ValueError(f"CLUSTERKIT_ATTEMPT is {text!r}, not a number; clusterkit sets it, so leave it alone.")
    return int(text)


@plain
def run_id() -> str:
    """The run this task belongs to; the empty string outside clusterkit."""
    return os.environ.get("CLUSTERKIT_RUN_ID", "")


@plain
def restart_reason() -> str:
    """Why this attempt was started: empty on the first, else a word such as ``failure``, ``preempted``, ``resume``."""
    return os.environ.get("CLUSTERKIT_RESTART_REASON", "")


@plain
def checkpoint_dir(default: str = "checkpoints") -> str:
    """The absolute directory for this job's checkpoints: clusterkit's, or `default` outside clusterkit.

    Absolute, because parameter servers write their own shards and may have another working directory.
    """
    return str(Path(os.environ.get("CLUSTERKIT_CHECKPOINT_DIR") or default).absolute())


@plain
def run_directory(default: str = ".") -> Path:
    """The absolute directory of this run; `default` outside clusterkit."""
    return Path(os.environ.get("CLUSTERKIT_RUN_DIR") or default).absolute()


@plain
def tensorboard_dir() -> str:
    """The absolute directory for this task's TensorBoard files: the run's ``tensorboard/worker:1``.

    Outside clusterkit it is ``tensorboard/worker:0`` in the working directory.
    """
    return str(run_directory() / "tensorboard" / task())


def _training_sizes(role: Role) -> dict[str, int]:
    return {name: size for name, size in role.sizes.items() if name != "evaluator"}


def _role() -> Role:
    # Read afresh each time, not cached: a program (or a test) may set TF_CONFIG after this module was imported.
    text = os.environ.get("TF_CONFIG", "")
    if not text.strip():
        return _role_without_cluster()
    try:
        return parse_tf_config(text)
    except ValueError as error:
        raise ValueError(f"TF_CONFIG cannot be used: {error} Its value is {text[:500]!r}.") from None


def _role_without_cluster() -> Role:
    name, _, index = os.environ.get("CLUSTERKIT_TASK", "").partition(":")
    return Role(name or ALONE, int(index) if index.isdecimal() else 0, {})


def parse_tf_config(text: str) -> Role:
    """Parse the text of TF_CONFIG; ValueError with a sentence where it is malformed."""
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error}).") from None
    if not isinstance(config, dict):
        raise ValueError("it must be a JSON object with 'cluster' and 'task'.")
    sizes = _sizes(config.get("cluster", {}))
    if not sizes and "task" not in config:
        return _role_without_cluster()
    task_type, task_index = _own_task(config.get("task"))
    if sizes and task_type != "evaluator" and task_index >= sizes.get(task_type, 0):
        raise ValueError(f"its task is {task_type}:{task_index}, which is not in its cluster.")
    return Role(task_type, task_index, sizes)


def _sizes(cluster: object) -> dict[str, int]:
    if not isinstance(cluster, dict):
        raise ValueError("its 'cluster' must map task types to lists of 'host:port'.")
    for name, endpoints in cluster.items():
        # TensorFlow also takes {"index": "host:port"} for a sparse cluster; len() is right for both.
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
