"""The distribution strategy that fits this task, by name or from TF_CONFIG."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import tensorflow as tf

from clusterkit.training import roles
from clusterkit.training.devices import StrategyUnavailable, gpus, places

KIB: Final = 1024
NAMES: Final = (
    "default",
    "one-device",
    "mirrored",
    "multi-worker",
    "parameter-server",
    "central-storage",
    "tpu",
)
TAKES_DEVICES: Final = ("mirrored", "central-storage")
COMMUNICATION: Final = ("auto", "ring", "nccl")


class NoTPU(StrategyUnavailable):
    """There is no TPU, or it does not answer."""


def strategy(
    name: str | None = None,
    *,
    devices: int | None = None,
    partitioner: Any = None,
    communication: str = "auto",
    fallback: bool = True,
) -> Any:
    """Make a `tf.distribute.Strategy`. Call it before anything else of TensorFlow, but after `serve()`.

    Args:
        name: ``default``, ``one-device``, ``mirrored``, ``multi-worker``, ``parameter-server``, ``central-storage`` or
            ``tpu``. None asks TF_CONFIG: parameter servers make it ``parameter-server``, several training tasks
            ``multi-worker``; otherwise it is ``mirrored`` where there is more than one GPU, else ``default``. In the
            evaluator, which stands beside the cluster, it is ``default``, and so is a name that needs the cluster.
        devices: for ``mirrored`` and ``central-storage``: how many GPUs; without any GPU, how many logical devices
            the CPU is divided into. By default all GPUs, or the CPU as one.
        partitioner: for ``parameter-server``: None, one of `tf.distribute.experimental.partitioners`, or
            ``min-size`` (pieces of at least 256 KiB), ``max-size`` (of at most 64 MiB), ``fixed`` (as many pieces as
            parameter servers), or one of these with another number of bytes or pieces: ``min-size:4096``.
        communication: for ``multi-worker``: ``auto``, ``ring`` or ``nccl``.
        fallback: where the named strategy can't be had here (``tpu`` without a TPU, ``parameter-server`` without a
            ps), print one sentence and take the one of None.

    Raises:
        ValueError: an argument that cannot be meant.
        StrategyUnavailable: it can't be had here and `fallback` is off (for ``tpu`` it is a NoTPU); or this task is
            a ps or a worker of a parameter-server job, which has to call `serve()` instead.
    """
    _check(name, devices, communication)
    if roles.has_ps() and roles.task_type() in ("worker", "ps"):
        raise StrategyUnavailable(
            f"{roles.task()} serves the coordinator of a parameter-server job, and has no strategy of its own: "
            "call clusterkit.training.serve() before strategy()."
        )
    aside = roles.is_evaluator() and name in ("multi-worker", "parameter-server")
    chosen = _here() if name is None or aside else name
    try:
        return _make(chosen, devices, partitioner, communication)
    except StrategyUnavailable as why:
        instead = _here()
        if not fallback or name not in ("tpu", "parameter-server"):
            raise
        print(f"{why} Training with the {instead} strategy instead.", flush=True)
        return _make(instead, None, partitioner, communication)


def _make(name: str, devices: int | None, partitioner: Any, communication: str) -> Any:
    distribute = tf.distribute
    make: dict[str, Callable[[], Any]] = {
        "default": distribute.get_strategy,
        "one-device": lambda: distribute.OneDeviceStrategy("/gpu:0" if gpus() else "/cpu:0"),
        "mirrored": lambda: distribute.MirroredStrategy(places(devices)),
        "multi-worker": lambda: distribute.MultiWorkerMirroredStrategy(communication_options=_by(communication)),
        "parameter-server": lambda: _parameter_server(partitioner),
        "central-storage": lambda: _central_storage(devices),
        "tpu": _tpu,
    }
    return make[name]()


def _check(name: str | None, devices: int | None, communication: str) -> None:
    if name is not None and name not in NAMES:
        raise ValueError(f"There is no strategy {name!r}; there are {', '.join(NAMES)}.")
    if devices is not None and (devices < 1 or name not in TAKES_DEVICES):
        raise ValueError(
            f"strategy({name!r}, devices={devices!r}): a number of devices from 1 up goes with "
            f"{' and '.join(TAKES_DEVICES)} only."
        )
    if communication not in COMMUNICATION:
        raise ValueError(f"There is no communication {communication!r}; there are {', '.join(COMMUNICATION)}.")


def _here() -> str:
    """The strategy that TF_CONFIG and the GPUs ask for."""
    if roles.is_evaluator():
        return "default"
    if roles.has_ps():
        return "parameter-server"
    if roles.in_cluster():
        return "multi-worker"
    return "mirrored" if len(gpus()) > 1 else "default"


def _by(communication: str) -> Any:
    kinds = tf.distribute.experimental.CommunicationImplementation
    return tf.distribute.experimental.CommunicationOptions(implementation=getattr(kinds, communication.upper()))


def _parameter_server(partitioner: Any) -> Any:
    if not roles.has_ps():
        raise StrategyUnavailable("There are no parameter servers in TF_CONFIG.")
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    made = partition(partitioner) if isinstance(partitioner, str) else partitioner
    return tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=made)


def partition(text: str) -> Any:
    """A partitioner by its name, such as ``min-size`` or ``min-size:4096``."""
    if (match := re.fullmatch(r"(min-size|max-size|fixed)(?::([1-9][0-9]*))?", text)) is None:
        raise ValueError(
            f"There is no partitioner {text!r}; there are min-size, max-size and fixed, "
            "each also with a number of bytes (of pieces, for fixed): min-size:4096."
        )
    kind, number = match.groups()
    known = tf.distribute.experimental.partitioners
    if kind == "min-size":
        return known.MinSizePartitioner(min_shard_bytes=int(number or 256 * KIB), max_shards=roles.num_ps())
    if kind == "max-size":
        return known.MaxSizePartitioner(max_shard_bytes=int(number or 64 * KIB * KIB))
    return known.FixedShardsPartitioner(num_shards=int(number or roles.num_ps()))


def _central_storage(devices: int | None) -> Any:
    """Variables in the CPU's memory, computation on the devices."""
    if devices is None:
        return tf.distribute.experimental.CentralStorageStrategy()
    return tf.distribute.experimental.CentralStorageStrategy(places(devices), parameter_device="/cpu:0")


def _tpu() -> Any:
    """The TPU that TPU_NAME names, or the one of this machine: found, connected and initialized as TensorFlow says."""
    name = os.environ.get("TPU_NAME") or ("local" if Path("/dev/accel0").exists() else None)
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(name)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, ImportError, tf.errors.OpError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise NoTPU(f"No TPU can be used here ({first}). Set TPU_NAME to its name or address.") from error
    return tf.distribute.TPUStrategy(resolver)
