"""Lists and comparisons of many runs, whose addresses keep what was chosen."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.store.store import RunStore
from tests.histories import job
from tests.page.browser import Browser, Served
from tests.page.histories import beginning, info_of, progress, written
from tests.page.situated import held, training
from tests.page.test_place import search

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(240)]
Serve = Callable[..., Served]


def many(home: Path, count: int) -> None:
    """So many runs that are over, one a minute."""
    spec = job(workers=1)
    for number in range(count):
        run = written(RunStore(home).path / f"run-{number:03}", spec, [*beginning(spec), *progress(spec.tasks[0], 3)])
        run.write_info(replace(info_of(spec), created=time.time() - 60 * number - 30))


def shown(browser: Browser) -> list[str]:
    """The ids in the list."""
    return re.findall(r"run-\d+", browser.text("table.list th[scope=row]"))


def test_a_long_list_is_shown_in_parts_and_its_address_keeps_what_was_chosen(
    home: Path, serve: Serve, browser: Browser
) -> None:
    """Filter, order and groups come back with a reload; when a run began is told as people do."""
    many(home, 130)
    served = serve()
    browser.open(served.address("/"))
    browser.wait(lambda: len(shown(browser)) == 100, "the first hundred")
    assert "5 min ago" in browser.text("table.list")
    browser.click("main button", "Show more of 130 runs")
    browser.wait(lambda: len(shown(browser)) == 130, "all")
    browser.type("input[aria-label^=Filter]", "run-01")
    browser.wait(lambda: len(shown(browser)) == 10, "ten runs")
    browser.click("table.list thead button", "run")
    browser.wait(lambda: shown(browser)[0] == "run-010", "the order")
    browser.driver.refresh()
    browser.wait(lambda: shown(browser) == [f"run-{number:03}" for number in range(10, 20)], "the same list")
    assert "sort=id+up" in search(browser)


def test_an_id_may_be_shortened(home: Path, serve: Serve, browser: Browser) -> None:
    """The address has the whole one then; what is in several ids is refused."""
    many(home, 11)
    served = serve()
    browser.open(served.address("/run/run-010"))
    browser.wait_text("h1", "run-010")
    browser.expected.append("entities - Failed to load resource")
    browser.open(served.address("/run/run-00"))
    browser.wait_text("h1", "Nothing here")
    browser.open(served.address("/run/run-01"))
    browser.wait_text("h1", "run-010")
    assert browser.run("return location.pathname") == "/run/run-010"


def test_the_address_of_a_run_keeps_its_curves(home: Path, serve: Serve, browser: Browser) -> None:
    """Which are shown, on what scale, and of which task; those of sixteen tasks begin with their mean and range."""
    with held(home, training(16)) as run:
        served = serve()
        browser.open(served.address(f"/run/{run.path.name}"))
        browser.wait(lambda: browser.all('.curves .tools [aria-pressed="true"]'), "an option that is on")
        assert browser.text('.curves .tools [aria-pressed="true"]') == "mean and range"
        browser.click(".curves .tools button", "mean and range")
        browser.click(".curves .tools button", "log scale")
        browser.click(".curves .chips button", "accuracy")
        browser.wait(lambda: "how=log" in search(browser) and "curve=accuracy" in search(browser), "the address")
        browser.driver.refresh()
        browser.wait(lambda: "accuracy" in browser.text(".chart strong"), "the curve")
        assert browser.text('.curves .tools [aria-pressed="true"]') == "log scale"


def test_runs_are_compared_with_the_first(home: Path, serve: Serve, browser: Browser) -> None:
    """Each number has its difference from the baseline, and the best is marked if it is known which way is better."""
    with held(home, training(2), "one"), held(home, training(3), "two"):
        browser.open(serve().address("/compare/one,two"))
        browser.wait_text("thead", "baseline")
        found = browser.run(
            """const { differences, wayOf } = await import("/static/compare.js");
            return [differences([0.5, 0.4, 0.4], -1), differences([0, 3], 1), differences([2, null, 2], 1),
                    differences([null, 1], -1), differences([4, 5], 0),
                    ["val_loss", "accuracy", "learning_rate"].map(wayOf)];"""
        )
    plain, best = {"text": "", "best": False}, {"text": "", "best": True}
    less = {"text": "−20 %", "best": True}
    assert found == [
        [plain, less, less],
        [plain, best],
        [plain, plain, plain],
        [plain, plain],
        [plain, {"text": "+25 %", "best": False}],
        [-1, 1, 0],
    ]
