"""Formats points in time for messages and documents."""

from __future__ import annotations

import datetime


def utc(wall: float) -> str:
    """Format wall time in seconds, such as `2026-11-27 03:03:55 UTC`; "" if it is out of range."""
    try:
        return datetime.datetime.fromtimestamp(wall, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return ""
