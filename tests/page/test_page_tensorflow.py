"""The page of a real cluster: TensorFlow's tasks are killed there, and recover."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.commands import Clusterkit
from tests.page.browser import Browser, Served
from tests.page.test_page_live import row, up
from tests.support import WORKLOADS

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.process,
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.timeout(400),
]

TRAINS = ("--workers", "2", "--ps", "1", WORKLOADS / "ps_train.py", "--steps", "100000", "--step-time", "0.01")
LONG = 150.0  # seconds, for a machine that has much else to do


def test_a_real_parameter_server_is_killed_from_the_page(
    ck: Clusterkit, serve: Callable[..., Served], browser: Browser
) -> None:
    """Its tasks appear, train and recover in lanes, story and curves; then the run is ended there."""
    run = up(ck, *TRAINS)
    browser.open(serve().address(f"/run/{run.name}"))
    for task in ("chief:0", "worker:0", "worker:1", "ps:0"):
        browser.wait_text(row(task), "running", LONG)
    browser.wait_text(row("chief:0"), "loss", LONG)
    browser.wait_text(".curves", "steps/s", LONG)
    browser.click(f"{row('ps:0')} button", "kill ps:0")
    browser.click("dialog button", "Kill")
    browser.wait_text(row("ps:0"), r"running · attempt 2", LONG)
    browser.wait_text(row("chief:0"), r"running · attempt 2", LONG)
    browser.wait_text(".recoveries", "ps:0 was killed by SIGKILL", LONG)
    browser.wait_text(".recoveries", r"\+\d+(\.\d+)? s\s+\+\d+(\.\d+)? s\s+\d+", LONG)
    browser.click(".tasks .tools button", "End the run")
    browser.click("dialog button", "End the run")
    browser.wait_text(".pill", "interrupted|stopped", LONG)
    assert "running" not in browser.text(".tasks table")
