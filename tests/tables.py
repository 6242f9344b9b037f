"""A pytest plugin: of the tables that would take hours, a session runs a part, which a seed draws anew each time."""

from __future__ import annotations

import os
import random
from secrets import token_hex

import pytest

SEED, SHARE = "TABLES_SEED", "TABLES_SHARE"  # variables; the latter is a number from 0 to 1
USUAL = 0.25


def pytest_configure() -> None:
    """Draw a seed, which the workers of the session take over."""
    os.environ.setdefault(SEED, token_hex(4))


def pytest_report_header() -> str:
    """What repeats the draw."""
    return f"tables: {share():.0%} of their rows, drawn by {SEED}={os.environ[SEED]}; `make soak` runs the others too"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A row that is drawn is for `make test-long`, another one for `make soak`."""
    for item in items:
        if item.get_closest_marker("table"):
            item.add_marker(pytest.mark.long if drawn(item.nodeid) else pytest.mark.soak)


def share() -> float:
    """How much of each table is drawn."""
    return float(os.environ.get(SHARE, USUAL))


def drawn(row: str) -> bool:
    """Whether a row is drawn."""
    return random.Random(f"{os.environ[SEED]} {row}").random() < share()
