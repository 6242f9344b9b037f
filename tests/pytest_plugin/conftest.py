"""A directory for test sessions of its own."""

from __future__ import annotations

import pytest

from tests.environment import ROOT


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory for a test session without this project's settings."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # this checkout, wherever another one is installed
    return pytester
