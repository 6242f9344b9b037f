"""Creates the `tf.distribute` strategy for this task, by name or from TF_CONFIG, and sets how datasets are sharded."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import tensorflow as tf

from clusterkit.training import this_task

KIB: Final = 1024
NAMES: Final = ("default", "one-device", "mirrored", "multi-worker", "parameter-server", "central-storage", "tpu")
TAKES_DEVICES: Final = ("mirrored", "central-storage")
COMMUNICATION: Final = ("auto", "ring", "nccl")
POLICIES: Final = ("file", "data", "off")


class StrategyUnavailable(RuntimeError):
    """The requested strategy is not available in this task. The message gives the reason and a remedy."""


class NoTPU(StrategyUnavailable):
    """No TPU was found, or it does not respond."""


def strategy(
    name: str | None = None,
    *,
    devices: int | None = None,
    partitioner: Any = None,
    communication: str = "auto",
    fallback: bool = True,
) -> Any:
    """Create the `tf.distribute.Strategy` for this task. Call it before anything else in TensorFlow, after `serve()`.

    Args:
        name: ``default``, ``one-device``, ``mirrored``, ``multi-worker``, ``parameter-server``, ``central-storage`` or
            ``tpu``. None chooses by TF_CONFIG: ``parameter-server`` with parameter servers, ``multi-worker`` with
            several training tasks, otherwise ``mirrored`` with more than one GPU, else ``default``. The evaluator is
            not a member of the cluster, so there None, ``multi-worker`` and ``parameter-server`` all mean ``default``.
        devices: for ``mirrored`` and ``central-storage``: the number of GPUs to use or, without a GPU, the number of
            logical devices into which the CPU is split. By default all GPUs, or the CPU as one device.
        partitioner: for ``parameter-server``: None, one of `tf.distribute.experimental.partitioners`, or
            ``min-size`` (shards of at least 256 KiB), ``max-size`` (shards of at most 64 MiB) or ``fixed`` (as many
            shards as parameter servers). A number of bytes or shards may follow the name: ``min-size:4096``.
        communication: for ``multi-worker``: ``auto``, ``ring`` or ``nccl``.
        fallback: if ``tpu`` has no TPU or ``parameter-server`` no parameter server, print a message and create the
            strategy for `name` None instead.

    Raises:
        ValueError: an argument is invalid.
        StrategyUnavailable: the strategy is not available here and `fallback` does not apply (`NoTPU` for ``tpu``); or
            the task is a worker or ps of a parameter-server job, which must call `serve()` instead.
    """
    _check(name, devices, communication)
    ignores_cluster = this_task.is_evaluator() and name in ("multi-worker", "parameter-server")
    chosen = _default_name() if name is None or ignores_cluster else name
    try:
        return _make(chosen, devices, partitioner, communication)
    except StrategyUnavailable as why:
        instead = _default_name()
        if not fallback or name not in ("tpu", "parameter-server"):
            raise
        print(f"{why} Training with the {instead} strategy instead.", flush=True)
        return _make(instead, None, partitioner, communication)


def _make(name: str, devices: int | None, partitioner: Any, communication: str) -> Any:
    distribute, experimental = tf.distribute, tf.distribute.experimental
    options = experimental.CommunicationOptions(
        implementation=getattr(experimental.CommunicationImplementation, communication.upper())
    )
    make: dict[str, Callable[[], Any]] = {
        "default": distribute.get_strategy,
        "one-device": lambda: distribute.OneDeviceStrategy("/gpu:0" if gpus() else "/cpu:0"),
        "mirrored": lambda: distribute.MirroredStrategy(device_names(devices)),
        "multi-worker": lambda: distribute.MultiWorkerMirroredStrategy(communication_options=options),
        "parameter-server": lambda: _parameter_server(partitioner),
        "central-storage": lambda: experimental.CentralStorageStrategy(
            device_names(devices), parameter_device=None if devices is None else "/cpu:0"
        ),
        "tpu": _tpu,
    }
    return make[name]()


def _check(name: str | None, devices: int | None, communication: str) -> None:
    if name is not None and name not in NAMES:
        raise ValueError(f"Unknown strategy {name!r}: use one of {', '.join(NAMES)}.")
    if devices is not None and (devices < 1 or name not in TAKES_DEVICES):
        raise ValueError(
            f"strategy({name!r}, devices={devices!r}) is invalid: devices must be 1 or more, and only "
            f"{' and '.join(TAKES_DEVICES)} support it."
        )
    if communication not in COMMUNICATION:
        raise ValueError(f"Unknown communication {communication!r}: use one of {', '.join(COMMUNICATION)}.")
    if this_task.has_ps() and this_task.task_type() in ("worker", "ps"):
        raise StrategyUnavailable(
            f"{this_task.task()} can't create a strategy, since it serves the coordinator of a parameter-server job: "
            "call clusterkit.training.serve() before strategy()."
        )


def _default_name() -> str:
    if this_task.is_evaluator():
        return "default"
    if this_task.has_ps():
        return "parameter-server"
    if this_task.in_cluster():
        return "multi-worker"
    return "mirrored" if len(gpus()) > 1 else "default"


def _parameter_server(partitioner: Any) -> Any:
    if not this_task.has_ps():
        raise StrategyUnavailable("TF_CONFIG has no parameter servers.")
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    made = partition(partitioner) if isinstance(partitioner, str) else partitioner
    return tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=made)


def partition(text: str) -> Any:
    """Create a partitioner from its name, such as ``min-size`` or ``min-size:4096``. Raises ValueError."""
    if (match := re.fullmatch(r"(min-size|max-size|fixed)(?::([1-9][0-9]*))?", text)) is None:
        raise ValueError(
            f"Unknown partitioner {text!r}: use min-size, max-size or fixed, optionally with a number of bytes "
            "(of shards, for fixed), such as min-size:4096."
        )
    kind, number = match.groups()
    known = tf.distribute.experimental.partitioners
    if kind == "min-size":
        return known.MinSizePartitioner(min_shard_bytes=int(number or 256 * KIB), max_shards=this_task.num_ps())
    if kind == "max-size":
        return known.MaxSizePartitioner(max_shard_bytes=int(number or 64 * KIB * KIB))
    return known.FixedShardsPartitioner(num_shards=int(number or this_task.num_ps()))


def _tpu() -> Any:
    """Connect to the TPU in TPU_NAME or this machine's TPU, and initialize it as TensorFlow's guide describes."""
    name = os.environ.get("TPU_NAME") or ("local" if Path("/dev/accel0").exists() else None)
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(name)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, ImportError, tf.errors.OpError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise NoTPU(f"No TPU can be used here ({first}). Set TPU_NAME to its name or address.") from error
    return tf.distribute.TPUStrategy(resolver)


def gpus() -> list[Any]:
    return list(tf.config.list_physical_devices("GPU"))


def device_names(count: int | None) -> list[str] | None:
    """Return the names of `count` GPUs. Without any GPU, create `count` logical CPU devices and return their names.

    Returns:
        Names such as ``/gpu:0``; None if `count` is None, so that TensorFlow chooses the devices itself.

    Raises:
        StrategyUnavailable: there are fewer GPUs, or TensorFlow is already initialized with fewer CPU devices.
    """
    if count is None:
        return None
    devices = len(gpus())
    if devices == 0:
        split_cpu(count)
        return [f"/cpu:{number}" for number in range(count)]
    if devices < count:
        raise StrategyUnavailable(f"{count} devices were requested, but {this_task.task()} sees only {devices} GPUs.")
    return [f"/gpu:{number}" for number in range(count)]


def split_cpu(count: int) -> None:
    """Split the CPU into `count` logical devices. They share its cores, so they are useful for tests but not faster."""
    (first, *_) = tf.config.list_physical_devices("CPU")
    try:
        tf.config.set_logical_device_configuration(first, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError:  # TensorFlow is already initialized, perhaps with enough devices
        have = len(tf.config.list_logical_devices("CPU"))
        if have < count:
            raise StrategyUnavailable(
                f"The CPU can't be split into {count} devices: TensorFlow is already initialized with {have}. "
                "Call clusterkit.training.strategy() before anything else of TensorFlow."
            ) from None


def sharded(dataset: Any, policy: str | None = None) -> Any:
    """Set how `experimental_distribute_dataset` and `fit` shard a dataset among workers (AutoShardPolicy).

        model.fit(training.sharded(dataset), epochs=10)

    ``data``: each worker reads the whole dataset and keeps every n-th element. This works for any dataset that has the
    same order in all workers: give `shuffle` a seed, or shuffle after distributing.
    ``file``: each worker reads only every n-th file, in any order. There must be at least as many files as workers, of
    about the same size; otherwise workers end at different steps and the job stops.
    ``off``: each worker reads the whole dataset. Each worker should then use a different order, and an epoch covers the
    data as many times as there are workers.

    TensorFlow's default, AUTO, uses ``file`` for every dataset that reads files, even if there are too few files.

    Args:
        dataset: a `tf.data.Dataset`.
        policy: ``data``, ``file`` or ``off``. None means ``data`` under MultiWorkerMirroredStrategy (the current
            strategy or, outside a scope, the one that TF_CONFIG implies) and ``off`` otherwise: in a single process the
            replicas get parts of each batch, and with parameter servers each worker creates its own dataset with its
            own seed.

    Returns:
        The dataset with this option set.

    Raises:
        ValueError: the policy is unknown.
    """
    if policy is not None and policy not in POLICIES:
        raise ValueError(f"Unknown sharding policy {policy!r}: use one of {', '.join(POLICIES)}.")
    options = tf.data.Options()
    kinds = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = getattr(kinds, (policy or _default()).upper())
    return dataset.with_options(options)


def _default() -> str:
    if tf.distribute.has_strategy():
        together = isinstance(tf.distribute.get_strategy(), tf.distribute.MultiWorkerMirroredStrategy)
    else:
        together = this_task.is_in_step()
    return "data" if together else "off"
