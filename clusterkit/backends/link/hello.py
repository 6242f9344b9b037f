"""The first frame of each side: an agent says who it is and what it has received, the supervisor welcomes it or not."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

from clusterkit import __version__
from clusterkit.backends.link.frames import BadFrame, Frame, frame
from clusterkit.words.errors import ClusterkitError

PROTOCOL = 2  # grows with each change of a frame; those of "refused", and of a hello's version, must not change
_SESSION = re.compile("[0-9a-f]{32}")
_LONGEST_NAME = 255


class Refused(ClusterkitError):
    """The supervisor refuses an agent; the message says why."""


@dataclass(frozen=True, slots=True)
class Hello:
    """An agent's greeting."""

    host: str
    session: str  # chosen by the agent: a hello that is repeated because no answer came must not be a second agent
    welcomed: bool  # whether the supervisor has answered in this session
    attempt: int  # counts the agent's connections, so that an old one that arrives late is recognized
    received: int  # the number of the last message received
    time: float  # the agent's, as in a heartbeat
    protocol: int = PROTOCOL
    version: str = __version__

    def encode(self) -> bytes:
        """The greeting as a frame."""
        return frame({"kind": "hello", **dataclasses.asdict(self)})


@dataclass(frozen=True, slots=True)
class Welcome:
    """The supervisor's answer."""

    received: int
    time: float  # that of the hello
    timeout: float  # seconds, the supervisor's, so that both sides have the same

    def encode(self) -> bytes:
        """The answer as a frame."""
        return frame({"kind": "welcome", **dataclasses.asdict(self)})


def parse_hello(greeting: Frame) -> Hello:
    """Read an agent's greeting. Raises BadFrame, and Refused if the agent speaks another protocol."""
    if greeting.kind != "hello":
        raise BadFrame(f"{greeting.kind!r:.40} instead of a hello")
    protocol, version = greeting.number("protocol"), greeting.text("version")
    host = greeting.text("host")
    if not (host + version).isprintable() or not 0 < len(host) <= _LONGEST_NAME:
        raise BadFrame("a hello with a name that can't be printed")
    if protocol != PROTOCOL:
        raise Refused(
            f"The agent on {host} is clusterkit {version:.40} (protocol {protocol}), the supervisor is clusterkit "
            f"{__version__} (protocol {PROTOCOL}): install the same version on both."
        )
    session = greeting.text("session")
    if not _SESSION.fullmatch(session):
        raise BadFrame("a hello without a session")
    attempt, received = greeting.number("attempt"), greeting.number("received")
    return Hello(host, session, greeting.truth("welcomed"), attempt, received, greeting.seconds("time"))


def parse_welcome(answer: Frame) -> Welcome:
    """Read the supervisor's answer. Raises BadFrame, and Refused."""
    if answer.kind == "refused":
        raise Refused(answer.text("why"))
    if answer.kind != "welcome":
        raise BadFrame(f"{answer.kind!r:.40} instead of a welcome")
    timeout = answer.seconds("timeout")
    if timeout <= 0:
        raise BadFrame("a welcome without a timeout")
    return Welcome(answer.number("received"), answer.seconds("time"), timeout)


def refusal(why: str) -> bytes:
    """A frame that says why there is no welcome."""
    return frame({"kind": "refused", "why": why})
