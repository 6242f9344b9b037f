"""The page beside a run, which open pages keep for a while after the run, however that ended."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.page.companion import wait_for_pages
from tests.commands import ROLES, Clusterkit
from tests.page.browser import Browser
from tests.page.test_page_live import JOB, LONG, SAYS, lines_of, row
from tests.support import Up, processes_of, wait_until


class Pages:
    """A server of which pages are open until a moment."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds

    @property
    def unseen_for(self) -> float:
        """No time while one is open."""
        return max(0.0, time.monotonic() - self.until)


@pytest.mark.parametrize(("open_for", "linger", "reload", "least", "most"), [(0, 9, 0.1, 0.1, 3), (99, 0.3, 9, 0.3, 3)])
def test_pages_are_waited_for(open_for: float, linger: float, reload: float, least: float, most: float) -> None:
    """Until the last one is closed, and for a limited time."""
    began = time.monotonic()
    wait_for_pages(Pages(open_for), linger, reload)
    assert least <= time.monotonic() - began < most


def page_of(run: Path, browser: Browser) -> None:
    """Open the page beside a run."""
    file = run / "dashboard"
    wait_until(lambda: file.exists() and file.read_text().strip(), LONG, "the address")
    browser.open(file.read_text().strip())


def companions(home: Path) -> list[int]:
    """The pids of the pages beside runs."""
    return [pid for pid, argv in processes_of(home).items() if "clusterkit.page.companion" in argv]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(240)
def test_a_page_shows_a_run_to_its_end_and_after(
    ck: Clusterkit, up: Callable[..., Up], home: Path, browser: Browser
) -> None:
    """After the end its log is filtered and it is reloaded; a next run leaves it alone; it ends with its last tab."""
    started = up("--workers", "1", "--dashboard", SAYS, "50", "wait")
    page_of(started.run, browser)
    browser.wait_text(".pill", "training")
    (started.run / "go").touch()
    assert started.wait(LONG) == 0
    browser.wait_text(".pill", "succeeded", 30)
    browser.type("input[aria-label^=Filter]", "line 42.")
    browser.wait(lambda: len(lines_of(browser)) == 1, "one line matches")
    browser.driver.refresh()
    browser.wait_text(".line .text", "succeeded after")
    (page,) = companions(home)
    assert ck("up", "--workers", "1", SAYS, "2", deadline=LONG).code == 0
    assert companions(home) == [page]
    assert "dashboard" not in ck("reap").out
    browser.clear()
    wait_until(lambda: companions(home) == [], 30, "the end of the page's server")
    assert processes_of(home) == {}


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(240)
def test_a_page_tells_that_its_supervisor_was_killed(up: Callable[..., Up], home: Path, browser: Browser) -> None:
    """It says so, and no task trains for ever; when its server has ended, it says which command opens the run."""
    started = up(*JOB, "--dashboard-control", ROLES, "--steps", "100000")
    page_of(started.run, browser)
    browser.wait_text(row("worker:1"), "running")
    browser.expected.append(r"Failed to load resource|Failed to fetch a worker script|net::ERR_")
    os.kill(started.supervisor, signal.SIGKILL)
    assert started.wait(LONG) != 0
    browser.wait_text(".pill", "lost", 30)
    browser.wait_text(".line .text", "was lost after .*: the supervisor was killed by SIGKILL")
    assert "training" not in browser.text("header .line") + browser.text("header .brief")
    assert not browser.all(".tasks button.act")
    (page,) = companions(home)
    os.kill(page, signal.SIGKILL)
    browser.wait_text(".banner", f"clusterkit dashboard {re.escape(started.run.name)} opens it again", 60)
    assert browser.text(".pill") == "lost"
    browser.type("input[aria-label^=Filter]", "/step 7$/")
    browser.wait_text(".log .empty", "can't be shown")
    assert browser.all(".rows .row") == []
