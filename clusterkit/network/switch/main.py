"""The switch process: creates namespaces, passes them to the supervisor, and forwards packets until the channel closes.

python -c ... SOCKET                  serve the supervisor, which sends the plan as the first line on SOCKET, as JSON
python -c ... check [network] [disk]  print why this machine does not support these features; nothing if it does
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from clusterkit.network.switch import system
from clusterkit.network.switch.capture import Capture
from clusterkit.network.switch.devices import Detours, Hub, VirtualHost, new_host, release
from clusterkit.network.switch.directions import Directions
from clusterkit.network.switch.disk import FullDisk, try_full_disk
from clusterkit.network.switch.fabric import PacketLoop
from clusterkit.network.switch.links import Layer
from clusterkit.network.switch.system import NotPossible

NICENESS = -10  # a high priority, since a real network does not become slower when hosts are busy
DESCRIPTORS_PER_MESSAGE = 200  # the kernel allows at most 253
CHUNK = 1 << 16


class Namespaces(NamedTuple):
    """The namespaces for tasks. Every task joins all of `shared`, in this order, and one of `hosts`."""

    in_user_namespace: bool  # True if this process has entered a new user namespace, for lack of privileges
    shared: Sequence[int]
    hosts: Sequence[VirtualHost]
    hub: Hub | None


def main() -> None:
    if sys.argv[1] == "check":
        print(why_not("network" in sys.argv, "disk" in sys.argv) or "", end="")
        return
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    with channel.makefile("rb", buffering=0) as file:
        plan = json.loads(file.readline())
    try:
        fabric = build(plan, channel)
    except NotPossible as error:
        send(channel, {"id": plan["id"], "error": str(error)})
        return
    send(channel, {"id": plan["id"], "result": None})
    with suppress(OSError):  # setting a negative niceness requires root
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    fabric.run()
    release(fabric.devices)
    os._exit(0)  # skips the interpreter's shutdown, which is slower


def build(plan: dict[str, Any], channel: socket.socket) -> PacketLoop:
    """Create the namespaces and the packet loop; send the namespaces to the supervisor. Raises NotPossible."""
    names, addresses = plan["names"], plan["addresses"]
    try:
        capture = None if plan["pcap"] is None else Capture(plan["pcap"])
    except OSError as error:
        raise NotPossible(f"{plan['pcap']} can't be written: {system.reason_of(error)}") from None
    # Do not create cables if packets are captured: only packets that pass through the switch can be captured.
    created = make_namespaces(addresses, plan["disk"] is not None, plan["cables"] and capture is None)
    disk = None
    if plan["disk"] is not None:
        disk = FullDisk(plan["disk"]["path"], plan["disk"]["scratch"], created.in_user_namespace)
    system.die_with_parent(plan["parent"])  # not earlier, since entering a user namespace clears the death signal
    namespaces, devices = [host.namespace for host in created.hosts], [host.device for host in created.hosts]
    directions = Directions(devices, names, addresses, plan["seed"], captured=capture is not None)
    if created.hub is not None:
        directions.detours = Detours(namespaces, directions.addresses)
    fabric = PacketLoop(namespaces, directions, capture)
    Control(channel, fabric, disk)
    descriptors = [*created.shared, *namespaces]
    for start in range(0, len(descriptors), DESCRIPTORS_PER_MESSAGE):
        # Descriptors have to be sent with at least one byte. The supervisor's JSON parser ignores leading spaces.
        socket.send_fds(channel, [b" "], descriptors[start : start + DESCRIPTORS_PER_MESSAGE])
    return fabric


def make_namespaces(addresses: Sequence[str], with_mounts: bool, with_cables: bool = True) -> Namespaces:
    """Create and enter the shared namespaces, then the namespace of each host. Raises NotPossible."""
    in_user_namespace = not system.has_rights()
    shared = [system.new_user_namespace()] if in_user_namespace else []
    if with_mounts:
        shared.append(system.new_namespace(system.CLONE_NEWNS))
        system.make_mounts_private()
    hub = None
    if addresses and with_cables:
        with suppress(NotPossible):  # if there are no cables, the switch forwards all packets
            hub = Hub()
    return Namespaces(in_user_namespace, shared, [new_host(address, hub) for address in addresses], hub)


def why_not(network: bool, disk: bool) -> str | None:
    """Return a clause that explains why the features are not supported, or None. Changes this process's namespaces."""
    try:
        created = make_namespaces(["10.77.0.1"] if network else [], disk)
        if disk:
            try_full_disk(created.in_user_namespace)
    except NotPossible as error:
        return str(error)
    return None


class Control:
    """The switch's end of the channel to the supervisor. The switch stops when the supervisor closes its own end."""

    def __init__(self, channel: socket.socket, fabric: PacketLoop, disk: FullDisk | None) -> None:
        self._channel = channel
        self._fabric = fabric
        self._disk = disk
        self._partial_line = b""
        fabric.listen(channel.fileno(), self._read)

    def _read(self) -> None:
        try:
            data = self._channel.recv(CHUNK)
        except OSError:
            data = b""
        if not data:
            self._fabric.stop()
            return
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            send(self._channel, self._answer(json.loads(line)))

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        number = request.pop("id")
        try:
            return {"id": number, "result": self._do(**request)}
        except NotPossible as error:
            return {"id": number, "error": str(error)}

    def _do(self, do: str, number: int = 0, a: Sequence[int] = (), b: Sequence[int] = (), **layer: Any) -> int | None:
        pairs = [pair for pair in itertools.product(a, b) if pair[0] != pair[1]]
        match do:
            case "impair":
                self._fabric.impair(number, pairs, Layer(**layer))
            case "reset":
                return self._fabric.resets.begin(pairs)
            case "fill":
                if self._disk is None:
                    raise NotPossible("the switch was started without a disk")
                self._disk.fill(number)
            case "heal":
                self._fabric.heal(number)
                if self._disk is not None:
                    self._disk.free(number)
            case "flush":
                self._fabric.flush()
        return None


def send(channel: socket.socket, message: dict[str, Any]) -> None:
    """Send a line of JSON. Ignore a closed channel: the next read notices it and stops the switch."""
    with suppress(OSError):
        channel.sendall(json.dumps(message).encode() + b"\n")
