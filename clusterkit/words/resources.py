"""The resources of a job: devices, the network, hosts."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class Network(enum.StrEnum):
    """The network between the tasks."""

    HOST = "host"  # this machine's loopback
    VIRTUAL = "virtual"  # each task has a network namespace and an address of its own


@dataclass(frozen=True, slots=True)
class Devices:
    """Each task's share of this machine, None for everything; and the available cores and GPUs."""

    cpus: int | None = None
    gpus: int | None = None
    cores: tuple[int, ...] = ()  # by number; found where `cpus` is given
    names: tuple[str, ...] = ()  # of GPUs, as CUDA_VISIBLE_DEVICES has them; found where `gpus` is given


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts of a job. Without any, its tasks are processes of this machine.

    | field | meaning |
    | --- | --- |
    | spare | hosts beside `count` on which no task is placed as long as no other host is lost |
    | place | rules, such as `ps=host0` |
    | interface | the one whose address the other tasks connect to; None: the one that leads to the supervisor |
    | timeout | seconds for which a host may be cut off before it is counted as lost |
    | listen | the address at which the supervisor waits for agents, with a port or without; None: as the engine needs |
    | key | the file with the run's key, if somebody else has made it |
    | engine | its name in engines/options.py; "local": this machine, with stand-ins for hosts |
    | settings | the options that this engine alone has, as they were given |
    """

    engine: str = "local"
    count: int = 0
    spare: int = 0
    place: tuple[str, ...] = ()
    interface: str | None = None
    timeout: float = 30.0
    listen: str | None = None
    key: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
