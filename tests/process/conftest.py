"""Fixtures of the process tests."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit.system.process import PR_SET_CHILD_SUBREAPER, become_subreaper
from tests.commands import Clusterkit
from tests.process.cast import Cast
from tests.process.nets import Nets


@pytest.fixture
def ck(home: Path) -> Iterator[Clusterkit]:
    """Call `clusterkit` commands; what they leave running is ended after the test."""
    home.mkdir(parents=True)
    called = Clusterkit(home)
    yield called
    called.end()


@pytest.fixture
def cast(tmp_path: Path) -> Iterator[Cast]:
    """An injector and its tasks, ended after the test."""
    made = Cast(tmp_path)
    yield made
    made.end()


@pytest.fixture
def nets(tmp_path: Path) -> Iterator[Nets]:
    """Virtual networks, and guests in them, ended after the test."""
    made = Nets(tmp_path / "switch.log")
    yield made
    made.end()


@pytest.fixture
def subreaper() -> Iterator[None]:
    """The test's process inherits the orphans among its descendants, as a supervisor does."""
    become_subreaper()
    yield
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
