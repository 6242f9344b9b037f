"""Durations as people write them: `10s`, `1m30s`, `500ms`, or a plain number of seconds."""

from __future__ import annotations

import math
import re

LONGEST = 1e9  # seconds (30 years); the maximum duration
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def seconds(value: object) -> float:
    """Parse a duration. Raises ValueError, with a message for users, if it is invalid or negative."""
    number = _number(value)
    if number < 0 or math.isnan(number):
        raise ValueError(f"{value!r} is not a duration: it has to be 0 or more.")
    if number > LONGEST:
        raise ValueError("That duration is longer than any job. Write 0 where it switches a limit off.")
    return number


def _number(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    text = str(value).strip()
    parts = _PART.findall(text)
    if parts and "".join(n + unit for n, unit in parts) == text:
        return sum(float(n) * _UNITS[unit] for n, unit in parts)
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a duration. Write 10s, 1m30s, 500ms or a number of seconds.") from None


def shown(value: float) -> str:
    """Format a duration for people: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def precise(value: float) -> str:
    """Format a duration for people, with tenths of a second below ten minutes: `12.3 s`, `11 min 20 s`."""
    return f"{value:.1f} s" if value < 600 else shown(value)


def compact(value: float) -> str:
    """Format a duration so that it can be parsed again without loss: `10s`, `2m`."""
    return f"{exact(value / 60)}m" if value and value % 60 == 0 else f"{exact(value)}s"


def exact(value: float) -> str:
    """Format a number without an exponent and without loss of precision: `100`, `0.05`, `0.0000001`."""
    text = str(value).removesuffix(".0")
    if "e" not in text:
        return text
    from decimal import Decimal  # imported here, since such numbers are rare

    return f"{Decimal(text):f}"
