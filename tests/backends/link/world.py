"""An agent, its supervisor and a network that delays, reorders and cuts, in simulated time."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from clusterkit.backends.link.frames import JSON, BadFrame, Frame, FrameParser, parse_hello
from clusterkit.backends.link.session import AgentSession, Message, Session, SupervisorSession, message_text
from clusterkit.backends.link.stream import FileRange

Side = Literal["agent", "supervisor"]


@dataclass(eq=False)
class Wire:
    """One connection. What is sent in a direction arrives in its order, or not at all."""

    cut_at: float
    last_arrival: dict[Side, float] = field(default_factory=dict)


class World:
    """Time goes on from event to event. `ended` has when each side gave up, `got` the numbers that it received."""

    def __init__(
        self, draw: random.Random, timeout: float, delay: Callable[[Side], float], life: Callable[[], float]
    ) -> None:
        """`delay` draws how long a frame takes to that side, `life` how long a connection lasts."""
        self.put: dict[Side, int] = {"agent": 0, "supervisor": 0}
        self.got: dict[Side, list[JSON]] = {"agent": [], "supervisor": []}
        self.ended: dict[Side, float] = {}
        self.dark: dict[Side, float] = {
            "agent": math.inf,
            "supervisor": math.inf,
        }  # when nothing arrives there any more
        self._draw, self._timeout, self._delay, self._life = draw, timeout, delay, life
        self._now, self._ahead = 0.0, draw.uniform(0, 1e6)  # the agent's clock is ahead by that much
        self._agent = AgentSession("0" * 32, "n1", timeout, self._ahead)
        self._supervisor: SupervisorSession | None = None
        self._dialed = Wire(0.0)
        self._wires: dict[Side, Wire] = {}
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._at(0.0, self._dial)
        self._at(0.0, self._beat)

    def run(self, until: float) -> None:
        """Let time pass until then, or until both sides have given up."""
        self._at(until, lambda: None)
        while len(self.ended) < 2 and self._now < until:
            moment, _, event = heapq.heappop(self._events)
            self._give_up_by(moment)
            self._now = moment
            event()

    def send_at(self, moment: float, side: Side) -> None:
        """Send the next number from one side at that time, if it has a session."""
        self._at(moment, lambda: self._send(side))

    def _send(self, side: Side) -> None:
        if side not in self.ended and (session := self._session(side)) is not None:
            self.put[side] += 1
            session.put(message_text({"number": self.put[side]}, b""), b"")
            self._pump(side)

    def _session(self, side: Side) -> Session | None:
        return self._agent if side == "agent" else self._supervisor

    def _clock(self, side: Side) -> float:
        return self._now + (self._ahead if side == "agent" else 0.0)

    def _at(self, moment: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._order), event))

    def _give_up_by(self, moment: float) -> None:
        if (end := self._agent.lease - self._ahead) <= moment:
            self.ended.setdefault("agent", end)
        if self._supervisor is not None and self._supervisor.lost_at <= moment:
            self.ended.setdefault("supervisor", self._supervisor.lost_at)

    def _dial(self) -> None:
        """Connect, whatever became of the last connection: it may still be there, or still be on its way."""
        if "agent" not in self.ended:
            life = self._life()
            self._dialed = Wire(self._now + life)
            self._wires.pop("agent", None)
            self._transmit(self._dialed, "supervisor", self._agent.hello(self._clock("agent")))
            self._at(self._now + self._draw.uniform(0.5, 1.5) * min(life, 4 * self._timeout), self._dial)

    def _beat(self) -> None:
        if "agent" not in self.ended:
            if "agent" in self._wires:
                self._agent.beat(self._clock("agent"))
                self._pump("agent")
            self._at(self._now + self._timeout / 5, self._beat)

    def _pump(self, side: Side) -> None:
        if (wire := self._wires.get(side)) is not None and (session := self._session(side)) is not None:
            while (data := session.next_frame(no_files)) is not None:
                self._transmit(wire, "supervisor" if side == "agent" else "agent", data)

    def _transmit(self, wire: Wire, receiver: Side, data: bytes) -> None:
        arrival = max(wire.last_arrival.get(receiver, 0.0), self._now + self._delay(receiver))
        wire.last_arrival[receiver] = arrival
        if arrival < min(wire.cut_at, self.dark[receiver]):
            self._at(arrival, lambda: self._arrive(wire, receiver, data))

    def _arrive(self, wire: Wire, receiver: Side, data: bytes) -> None:
        if receiver not in self.ended:
            (frame,) = FrameParser().feed(data)
            if frame.kind == "hello":
                with suppress(BadFrame):  # that of a connection which is older than the one that is there
                    self._greet(wire, frame)
            elif frame.kind == "welcome" and wire is self._dialed:
                self._agent.welcome(frame)
                self._wires["agent"] = wire
            elif self._wires.get(receiver) is wire:
                self._take(receiver, frame)
            self._pump(receiver)

    def _greet(self, wire: Wire, frame: Frame) -> None:
        hello = parse_hello(frame)
        session = self._supervisor or SupervisorSession(self._timeout, self._now)
        welcome = session.welcome(hello, self._now)
        self._supervisor, self._wires["supervisor"] = session, wire
        self._transmit(wire, "agent", welcome)

    def _take(self, receiver: Side, frame: Frame) -> None:
        session = self._session(receiver)
        assert session is not None
        if isinstance(delivered := session.receive(frame, self._clock(receiver)), Message):
            self.got[receiver].append(delivered.content["number"])


def no_files(part: FileRange) -> bytes:
    """Nothing is sent from files here."""
    raise AssertionError(part)
