"""Test sessions with the plugin."""

from __future__ import annotations

import pytest

from tests.support import CHILDREN

ROLES = str(CHILDREN / "roles.py")


def run(session: pytest.Pytester, source: str, *args: str) -> pytest.RunResult:
    """Run a file of tests with the plugin."""
    session.makepyfile(source.replace("ROLES", repr(ROLES)))
    return session.runpytest_subprocess("-p", "clusterkit.pytest_plugin", "--strict-markers", *args, timeout=60)
