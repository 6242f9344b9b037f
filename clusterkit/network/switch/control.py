"""The control channel: executes the supervisor's requests and answers them, one line of JSON each."""

from __future__ import annotations

import itertools
import json
import socket
from contextlib import suppress
from typing import Any

from clusterkit.network.switch.cables import Pair
from clusterkit.network.switch.disk import FullDisk
from clusterkit.network.switch.fabric import Fabric
from clusterkit.network.switch.links import Layer
from clusterkit.network.switch.system import NotPossible

CHUNK = 1 << 16


class Control:
    """The switch's end of the channel to the supervisor. When the other end closes, the switch stops."""

    def __init__(self, channel: socket.socket, fabric: Fabric, disk: FullDisk | None) -> None:
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
            send(self._channel, self._do(json.loads(line)))

    def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        number, verb = request.pop("id"), getattr(self, f"_do_{request.pop('do')}")
        try:
            return {"id": number, "result": verb(**request)}
        except NotPossible as error:
            return {"id": number, "error": str(error)}

    def _do_impair(self, number: int, a: list[int], b: list[int], **layer: Any) -> None:
        self._fabric.impair(number, _pairs(a, b), Layer(**layer))

    def _do_reset(self, a: list[int], b: list[int]) -> int:
        return self._fabric.resets.begin(_pairs(a, b))

    def _do_fill(self, number: int) -> None:
        if self._disk is None:
            raise NotPossible("the switch was started without a disk")
        self._disk.fill(number)

    def _do_heal(self, number: int) -> None:
        self._fabric.heal(number)
        if self._disk is not None:
            self._disk.free(number)

    def _do_flush(self) -> None:
        self._fabric.flush()


def send(channel: socket.socket, message: dict[str, Any]) -> None:
    """Send a line of JSON. If the channel is closed, the next read notices."""
    with suppress(OSError):
        channel.sendall(json.dumps(message).encode() + b"\n")


def _pairs(a: list[int], b: list[int]) -> list[Pair]:
    return [pair for pair in itertools.product(a, b) if pair[0] != pair[1]]
