"""Flows: what the ends of each TCP connection have acknowledged last, and by it how to reset the connection."""

from __future__ import annotations

from collections.abc import Iterator

from clusterkit.switch.packets import ACK, FIN, RST, SYN, Segment, reset, reverse

MOST = 1 << 16  # directions that are remembered; beyond it the oldest are forgotten
DOOMED_FOR = 30.0  # seconds for which packets of a connection that was reset are answered with a reset


class Flows:
    """Every TCP connection that began across the switch, by direction.

    `acks` has what the sender of a flow acknowledged last, which is what it expects next; empty where it has not yet.
    """

    def __init__(self) -> None:
        self.acks: dict[bytes, bytes] = {}
        self._finished: set[bytes] = set()
        self._doomed: dict[bytes, float] = {}

    def note(self, segment: Segment) -> None:
        """Learn from a segment that an end has sent, whether it arrives or not."""
        flow, flags, ack = segment
        if flags & RST:
            self._forget(flow)
        elif flags & SYN:
            self._begin(flow, ack if flags & ACK else b"")
        elif flow in self.acks:
            self.acks[flow] = ack
            if flags & FIN:
                self._finish(flow)

    def reset(self, a: bytes, b: bytes, now: float) -> tuple[list[bytes], int]:
        """The packets that reset every connection between two addresses, and how many connections these are.

        An end that has received something since its last acknowledgement takes no notice of the packet, or answers
        it: `answer` then has the right one.
        """
        directed = [flow for flow in self.acks if flow[:8] in (a + b, b + a)]
        packets = [reset(reverse(flow), ack) for flow in directed if (ack := self.acks[flow])]
        doomed = {both for flow in directed if self.acks[flow] for both in (flow, reverse(flow))}
        self._doomed = {flow: until for flow, until in self._doomed.items() if until > now}
        self._doomed |= dict.fromkeys(doomed, now + DOOMED_FOR)
        for flow in doomed:
            self._forget(flow)
        return packets, len(doomed) // 2

    def answer(self, segment: Segment, now: float) -> list[bytes] | None:
        """What its sender gets instead, where the segment is of a connection that was reset; None where it is not."""
        if segment.flow not in self._doomed:
            return None
        begins_anew = segment.flags & SYN and not segment.flags & ACK
        if begins_anew or self._doomed[segment.flow] <= now:
            for flow in (segment.flow, reverse(segment.flow)):
                self._doomed.pop(flow, None)
            return None
        if segment.flags & RST:
            return []
        return [reset(reverse(segment.flow), segment.ack)]

    def _begin(self, flow: bytes, ack: bytes) -> None:
        for old in self._oldest():
            self._forget(old)
        self._finished.discard(flow)
        self.acks[flow] = ack

    def _oldest(self) -> Iterator[bytes]:
        if len(self.acks) >= MOST:
            yield next(iter(self.acks))

    def _finish(self, flow: bytes) -> None:
        self._finished.add(flow)
        if reverse(flow) in self._finished:
            self._forget(flow)

    def _forget(self, flow: bytes) -> None:
        for one in (flow, reverse(flow)):
            self.acks.pop(one, None)
            self._finished.discard(one)
