"""Delays a worker's connection until the leader of its gang listens.

TensorFlow retries a refused connection only after a second. Forked workers start within milliseconds of each other, so
a worker that is slightly faster than the leader would delay the gang by a second.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Any

WITHIN = 10.0  # seconds; the maximum delay. If the leader takes longer, TensorFlow itself waits for it.
EVERY = 0.01
CONNECT_WITHIN = 1.0


def wait_for_leader(module: Any, load: Any) -> None:
    """Patch `enable_collective_ops`, which makes a worker's server connect, to wait first until the leader listens."""

    def wait_first(context: object, server_def: Any) -> None:
        if wait(server_def):
            load("task/patches/told").effect("leader-first", load)

    load("task/patches/hook").before(module.Context, "enable_collective_ops", wait_first)


def wait(server_def: Any) -> bool:
    """Wait until the leader's coordination service listens, unless this server hosts it. Return whether it waited."""
    with suppress(AttributeError, KeyError, ValueError):  # an unknown kind of server definition: do not wait
        if (address := leader_of(server_def)) is not None:
            return wait_until_accepted(address)
    return False


def leader_of(server_def: Any) -> tuple[str, int] | None:
    """Return the address of the coordination service; None if there is no service, or if this server hosts it."""
    name = server_def.default_session_config.experimental.coordination_config.service_leader
    own = f"/job:{server_def.job_name}/replica:0/task:{server_def.task_index}"
    if not name or name == own:
        return None
    job, _, index = name.removeprefix("/job:").partition("/replica:0/task:")
    tasks = {one.name: one.tasks for one in server_def.cluster.job}[job]
    host, _, port = tasks[int(index)].rpartition(":")
    return host.strip("[]"), int(port)


def wait_until_accepted(address: tuple[str, int]) -> bool:
    """Wait until a connection to the address is accepted, or until WITHIN. Return whether the first one was refused."""
    until, refused = time.monotonic() + WITHIN, False
    while time.monotonic() < until:
        try:
            socket.create_connection(address, CONNECT_WITHIN).close()
            return refused
        except OSError:
            refused = True
            time.sleep(EVERY)
    return refused
