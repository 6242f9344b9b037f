"""The browser, for whoever looks at the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.page.browser import Browser, Served, why_no_browser
from tests.support import processes_of, wait_until


@pytest.fixture(scope="module")
def one_browser() -> Iterator[Browser]:
    """One for all tests of a file, which use `browser`. Tests of backends end all children of pytest's process."""
    if (why := why_no_browser()) is not None:
        pytest.skip(f"no browser here: {why}")
    started = Browser()
    yield started
    started.end()


@pytest.fixture
def browser(one_browser: Browser, serve: Callable[..., Served]) -> Iterator[Browser]:
    """The browser at an empty page; afterwards nothing may be wrong on its console.

    It leaves its page before `serve` ends what that asks.
    """
    one_browser.clear()
    yield one_browser
    errors = one_browser.errors()
    one_browser.clear()
    assert errors == []


@pytest.fixture
def serve(home: Path) -> Iterator[Callable[..., Served]]:
    """Start a dashboard of the test's home; it is ended afterwards."""
    started: list[Served] = []

    def start(control: bool = True) -> Served:
        started.append(Served(home, control))
        return started[-1]

    yield start
    for served in started:
        served.kill()
        served.release()
    # A run may still be live, but not the processes in which the servers searched.
    wait_until(lambda: "system.searching" not in str(processes_of(home)), 20, "the end of what the servers started")
