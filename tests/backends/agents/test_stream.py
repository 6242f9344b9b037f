"""The stream: each message is delivered once and in order, whatever of a connection is lost."""

from __future__ import annotations

from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.backends.agents.frames import BadFrame
from clusterkit.backends.agents.stream import ACKNOWLEDGE_AFTER, WINDOW, FileRange, Stream


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
    assert [stream.take(number, 0) for number in (1, 2, 2, 1, 3)] == [True, True, False, False, True]
    with pytest.raises(BadFrame, match="message 5 after message 3"):
        stream.take(5, 0)


def test_an_acknowledgment_is_owed_after_a_part_of_a_window() -> None:
    """Whatever is sent before carries it."""
    stream = Stream()
    stream.take(1, ACKNOWLEDGE_AFTER - 1)
    assert not stream.owes_acknowledgment
    stream.take(2, 1)
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
            delivered += [number] if there.take(number, 0) else []
        elif step == "acknowledge":
            here.acknowledge(there.acknowledgment())
        elif step == "cut":
            on_way.clear()
            here.resume(there.received)
    assert delivered == list(range(1, put + 1))
