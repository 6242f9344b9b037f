"""The switch's process: makes the namespaces, hands them over, and carries packets while the supervisor lives.

python -c ... SOCKET                  with the plan, a line of JSON, as the first that comes through it
python -c ... check [network] [disk]  print why this machine can't do that, or nothing
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from clusterkit.network.switch import system
from clusterkit.network.switch.cables import Detours, Hub
from clusterkit.network.switch.capture import Capture
from clusterkit.network.switch.control import Control, answer
from clusterkit.network.switch.devices import Host, leave, new_host
from clusterkit.network.switch.disk import FullDisk, try_full_disk
from clusterkit.network.switch.fabric import Fabric
from clusterkit.network.switch.system import NotPossible
from clusterkit.network.switch.ways import Ways

NICENESS = -10  # a network does not get slower because the computers in it are busy
MOST_AT_ONCE = 200  # descriptors in a message; the kernel takes 253


class Places(NamedTuple):
    """The namespaces: those that all tasks have in common, in the order to join them, and each host's own."""

    by_user: bool
    shared: Sequence[int]
    hosts: Sequence[Host]
    hub: Hub | None


def main() -> None:
    """See the module's docstring."""
    if sys.argv[1] == "check":
        print(why_not("network" in sys.argv, "disk" in sys.argv) or "", end="")
        return
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    with channel.makefile("rb", buffering=0) as file:
        plan = json.loads(file.readline())
    try:
        fabric = made(plan, channel)
    except NotPossible as error:
        answer(channel, {"id": plan["id"], "error": str(error)})
        return
    answer(channel, {"id": plan["id"], "result": None})
    with suppress(OSError):  # only root may
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    fabric.run()
    leave(fabric.devices)
    os._exit(0)  # without the interpreter's own ending, which takes longer


def made(plan: dict[str, Any], channel: socket.socket) -> Fabric:
    """Make everything, and hand the namespaces over. Raises NotPossible."""
    names, addresses = plan["names"], plan["addresses"]
    capture = None if plan["pcap"] is None else _capture(plan["pcap"])
    # Where everything is captured, everything has to pass the switch.
    places = make_places(addresses, plan["disk"] is not None, plan["cables"] and capture is None)
    disk = None if plan["disk"] is None else FullDisk(plan["disk"]["path"], plan["disk"]["scratch"], places.by_user)
    system.die_with_parent(plan["parent"])  # last: a new user namespace undoes it
    namespaces, devices = [host.namespace for host in places.hosts], [host.device for host in places.hosts]
    ways = Ways(devices, names, addresses, plan["seed"], captured=capture is not None)
    if places.hub is not None:
        ways.detours = Detours(namespaces, ways.addresses)
    fabric = Fabric(namespaces, ways, capture)
    Control(channel, fabric, disk)
    descriptors = [*places.shared, *namespaces]
    for start in range(0, len(descriptors), MOST_AT_ONCE):
        # The answer follows, and the space before it means nothing.
        socket.send_fds(channel, [b" "], descriptors[start : start + MOST_AT_ONCE])
    return fabric


def make_places(addresses: Sequence[str], with_mounts: bool, with_cables: bool = True) -> Places:
    """Go into new namespaces, one host's after the other. Raises NotPossible."""
    by_user = not system.has_rights()
    shared = [system.new_user_namespace()] if by_user else []
    if with_mounts:
        shared.append(system.new_namespace(system.CLONE_NEWNS))
        system.keep_mounts_to_itself()
    hub = _hub() if addresses and with_cables else None
    return Places(by_user, shared, [new_host(address, hub) for address in addresses], hub)


def why_not(network: bool, disk: bool) -> str | None:
    """Why this machine can't do it, in a clause; None where it can. Leaves this process in other namespaces."""
    try:
        places = make_places(["10.77.0.1"] if network else [], disk)
        if disk:
            try_full_disk(places.by_user)
    except NotPossible as error:
        return str(error)
    return None


def _hub() -> Hub | None:
    """None where the kernel has no cables: there the switch carries everything."""
    try:
        return Hub()
    except NotPossible:
        return None


def _capture(path: str) -> Capture:
    try:
        return Capture(path)
    except OSError as error:
        raise NotPossible(f"{path} can't be written: {system.said(error)}") from None
