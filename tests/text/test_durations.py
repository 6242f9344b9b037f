"""Durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from clusterkit.text.durations import LONGEST, compact, seconds, shown


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10s", 10),
        ("1m30s", 90),
        ("500ms", 0.5),
        ("1.5h", 5400),
        ("2d", 172800),
        ("1h2m3s4ms", 3723.004),
        (" 7 ", 7),
        ("0", 0),
        ("2.5", 2.5),
        ("1e2", 100),
        (30, 30),
        (0.25, 0.25),
    ],
)
def test_what_a_duration_means(text: object, value: float) -> None:
    """Units, sums of units, and plain seconds."""
    assert seconds(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a duration. Write 10s"),
        ("soon", "'soon' is not a duration. Write 10s"),
        ("10 s", "is not a duration. Write 10s"),
        ("10x", "is not a duration. Write 10s"),
        ("s", "is not a duration. Write 10s"),
        ("-5s", "is not a duration. Write 10s"),
        (True, "is not a duration. Write 10s"),
        ([1], "is not a duration. Write 10s"),
        ("-5", "has to be 0 or more"),
        (-1, "has to be 0 or more"),
        (-(10**400), "has to be 0 or more"),
        (float("nan"), "has to be 0 or more"),
        ("nan", "has to be 0 or more"),
        ("inf", "longer than any job"),
        (1e300, "longer than any job"),
        ("99999999999999999999d", "longer than any job"),
        (10**400, "longer than any job"),
        ("9" * 400 + "s", "longer than any job"),
    ],
)
def test_what_is_no_duration_is_told_why(text: object, why: str) -> None:
    """A ValueError with a sentence, never another error."""
    with pytest.raises(ValueError, match=why):
        seconds(text)


@seed(1)
@given(st.text() | st.integers() | st.floats() | st.none() | st.booleans())
def test_every_input_is_a_duration_or_a_value_error(value: object) -> None:
    """What comes out is not negative, and no more than a clock or a wait can take."""
    try:
        read = seconds(value)
    except ValueError:
        return
    assert 0 <= read <= LONGEST


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0 s"),
        (0.44, "0.4 s"),
        (9.94, "9.9 s"),
        (12, "12 s"),
        (59.7, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3599.9, "1 h 0 min"),
        (7500, "2 h 5 min"),
    ],
)
def test_how_a_duration_is_shown(value: float, text: str) -> None:
    """Short ones with a tenth, long ones without seconds."""
    assert shown(value) == text


@pytest.mark.parametrize(("value", "text"), [(10.0, "10s"), (120.0, "2m"), (90, "90s"), (0.5, "0.5s"), (0, "0s")])
def test_a_compact_duration_can_be_read_again(value: float, text: str) -> None:
    """As the help shows it, and people write it."""
    assert compact(value) == text
    assert seconds(text) == value


@seed(1)
@given(st.floats(0, LONGEST) | st.integers(0, int(LONGEST)).map(float))
def test_a_compact_duration_has_every_digit(value: float) -> None:
    """Without an exponent, which is not the form of a duration."""
    assert seconds(compact(value)) == value
