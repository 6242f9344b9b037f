"""The stream: each message is delivered once and in order, whatever of a connection is lost."""

from __future__ import annotations

from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.backends.link.frames import BadFrame
from clusterkit.backends.link.stream import ACKNOWLEDGE_AFTER, LONG_BACKLOG, LONGEST_PART, WINDOW, FileRange, Stream


def sent(stream: Stream) -> list[int]:
    """The numbers of what can be sent now."""
    numbers = list[int]()
    while (kept := stream.next()) is not None:
        numbers.append(kept.number)
    return numbers


def filled(messages: int, body: bytes | FileRange = b"") -> Stream:
    """A stream with messages that were not sent."""
    stream = Stream()
    for _ in range(messages):
        stream.put(b"{}", body)
    return stream


def test_messages_are_sent_once_in_a_connection() -> None:
    """In the order in which they were put."""
    stream = filled(3)
    assert sent(stream) == [1, 2, 3]
    assert sent(stream) == []


def test_what_was_not_acknowledged_is_sent_again_in_the_next_connection() -> None:
    """From where the other side is, which may be ahead of its acknowledgments."""
    stream = filled(5)
    assert sent(stream) == [1, 2, 3, 4, 5]
    stream.acknowledge(2)
    stream.resume(3)
    assert sent(stream) == [4, 5]


def test_only_a_window_is_on_its_way() -> None:
    """More follows as it is acknowledged; ranges of files count with their size."""
    part = FileRange(PurePath("spool"), 0, WINDOW // 4)
    stream = filled(10, part)
    assert sent(stream) == [1, 2, 3, 4]
    stream.acknowledge(1)
    assert sent(stream) == [5]
    stream.acknowledge(5)
    assert sent(stream) == [6, 7, 8, 9]


def test_a_body_as_long_as_the_window_is_sent() -> None:
    """Also behind others, as long as less than a window is on its way."""
    stream = filled(1)
    stream.put(b"{}", b"x" * WINDOW)
    stream.put(b"{}", b"x")
    assert sent(stream) == [1, 2]
    stream.acknowledge(2)
    assert sent(stream) == [3]


def test_a_repetition_is_dropped_and_a_gap_is_an_error() -> None:
    """The one is delivered already; of the other, something would be lost."""
    stream = Stream()
    assert [stream.accept(number, 0) for number in (1, 2, 2, 1, 3)] == [True, True, False, False, True]
    with pytest.raises(BadFrame, match="message 5 after message 3"):
        stream.accept(5, 0)


def test_an_acknowledgment_is_owed_after_a_part_of_a_window() -> None:
    """Whatever is sent before carries it."""
    stream = Stream()
    stream.accept(1, ACKNOWLEDGE_AFTER - 1)
    assert not stream.owes_acknowledgment
    stream.accept(2, 1)
    assert stream.owes_acknowledgment
    assert stream.acknowledgment() == 2
    assert not stream.owes_acknowledgment


@pytest.mark.parametrize("number", [0, 1, 4, 2**70])
def test_an_acknowledgment_of_what_was_not_sent_is_an_error(number: int) -> None:
    """Nor does one go back."""
    stream = filled(5)
    for _ in range(3):
        stream.next()
    stream.acknowledge(2)
    with pytest.raises(BadFrame, match="not of 2 to 3"):
        stream.acknowledge(number)


@pytest.mark.parametrize("number", [0, 1, 4, 2**70])
def test_a_resumption_where_the_other_side_can_not_be_is_an_error(number: int) -> None:
    """What it has acknowledged is gone; what it was not sent, it does not have."""
    stream = filled(5)
    for _ in range(3):
        stream.next()
    stream.acknowledge(2)
    with pytest.raises(BadFrame, match="not 2 to 3"):
        stream.resume(number)


def test_it_is_empty_once_everything_is_acknowledged() -> None:
    """Or forgotten."""
    stream = filled(2)
    assert not stream.is_empty
    sent(stream)
    assert not stream.is_empty
    stream.acknowledge(2)
    assert stream.is_empty
    stream.put(b"{}", b"")
    stream.forget()
    assert stream.is_empty


@given(st.lists(st.sampled_from(["put", "send", "deliver", "acknowledge", "cut"]), max_size=60))
def test_nothing_is_lost_or_doubled(history: list[str]) -> None:
    """Whatever is sent, delivered, acknowledged or cut off when."""
    here, there, put, on_way, delivered = Stream(), Stream(), 0, list[int](), list[int]()
    for step in [*history, "cut", *["send", "deliver"] * 60]:
        if step == "put":
            here.put(b"{}", b"")
            put += 1
        elif step == "send" and (kept := here.next()) is not None:
            on_way.append(kept.number)
        elif step == "deliver" and on_way:
            number = on_way.pop(0)
            delivered += [number] if there.accept(number, 0) else []
        elif step == "acknowledge":
            here.acknowledge(there.acknowledgment())
        elif step == "cut":
            on_way.clear()
            here.resume(there.received)
    assert delivered == list(range(1, put + 1))


LOGS = [PurePath(f"log-{number}") for number in range(3)]


def grown(log: PurePath, offset: int, size: int) -> FileRange:
    """A part of a file that grows."""
    return FileRange(log, offset, size, grows=True)


class Output:
    """Files that grow, what of each was put into a stream, and the messages that come out of it."""

    def __init__(self) -> None:
        self.stream = Stream()
        self.ends = dict.fromkeys(LOGS, 0)
        self.puts = 0

    def write(self, log: PurePath, size: int = 10) -> None:
        """A file gets longer."""
        self.stream.put(b"{}", FileRange(log, self.ends[log], size, grows=True))
        self.ends[log] += size
        self.puts += 1

    def rest(self) -> list[bytes | FileRange]:
        """What is sent now, as long as the other side acknowledges it."""
        bodies = []
        while (kept := self.stream.next()) is not None:
            bodies.append(kept.body)
            self.stream.acknowledge(kept.number)
        return bodies


def test_what_a_file_gets_while_nothing_is_sent_becomes_one_message() -> None:
    """Up to a size; an event, or another file, that comes between keeps its place."""
    output = Output()
    for _ in range(3):
        output.write(LOGS[0])
    output.stream.put(b"an event", b"")
    output.write(LOGS[0])
    output.write(LOGS[0], LONGEST_PART - 10)
    output.write(LOGS[0])
    output.write(LOGS[1])
    assert output.rest() == [
        grown(LOGS[0], 0, 30), b"", grown(LOGS[0], 30, LONGEST_PART),
        grown(LOGS[0], 30 + LONGEST_PART, 10), grown(LOGS[1], 0, 10),
    ]  # fmt: skip


def test_a_message_that_was_sent_does_not_grow() -> None:
    """Also one that may have got lost: the other side may have it as it was."""
    output = Output()
    output.write(LOGS[0])
    assert output.stream.next() is not None
    output.stream.resume(0)
    output.write(LOGS[0])
    assert output.rest() == [grown(LOGS[0], 0, 10), grown(LOGS[0], 10, 10)]


def test_a_long_backlog_of_several_files_takes_little_memory() -> None:
    """Hundred thousand lines of three tasks, which take turns: a few messages more than may wait without joining."""
    output = Output()
    for number in range(100_000):
        output.write(LOGS[number % 3], 100)
    bodies = output.rest()
    assert len(bodies) <= LONG_BACKLOG + 3 + 100_000 * 100 // LONGEST_PART + 3
    for log in LOGS:
        parts = [body for body in bodies if isinstance(body, FileRange) and body.path == log]
        assert [part.offset for part in parts] == [0, *(part.offset + part.size for part in parts[:-1])]
        assert parts[-1].offset + parts[-1].size == output.ends[log]


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["write", "next", "cut", "skip"])), max_size=60))
def test_every_byte_is_sent_once_whatever_is_cut(history: list[tuple[int, str]]) -> None:
    """The other side has what it received before a cut; what it takes in afterwards continues exactly there."""
    output, received = Output(), dict[int, FileRange]()

    def deliver() -> None:
        if (kept := output.stream.next()) is not None:
            assert isinstance(kept.body, FileRange)
            assert received.setdefault(kept.number, kept.body) == kept.body

    for number, step in history:
        if step == "write":
            output.write(LOGS[number])
        elif step == "next":
            deliver()
        elif step == "cut":
            output.stream.resume(max(received, default=0))
        else:
            output.stream.acknowledge(max(received, default=0))
    output.stream.resume(max(received, default=0))
    while not output.stream.is_empty:
        deliver()
        output.stream.acknowledge(max(received, default=0))
    for log in LOGS:
        parts = [part for _, part in sorted(received.items()) if part.path == log]
        assert sum(part.size for part in parts) == output.ends[log]
        assert [part.offset for part in parts] == [sum(p.size for p in parts[:nth]) for nth in range(len(parts))]
