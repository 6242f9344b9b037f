"""Runs in a list and beside each other: chosen, compared, followed while they are live, and of hostile addresses."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.words import events as ev
from tests.histories import SIGKILL, task
from tests.ledger.recovering import gang
from tests.page.browser import Browser, Served
from tests.page.situated import failed, held, training

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(240)]
CHOOSE = "const one = document.querySelector('select'); one.value = args[0]; one.dispatchEvent(new Event('change'))"
ASKED = "return performance.getEntriesByType('resource').map((r) => r.name).filter((name) => name.includes(args[0]))"
STATE = "return document.getElementById('app').dataset.connection"


def test_runs_are_sorted_filtered_and_compared(home: Path, serve: Callable[..., Served], browser: Browser) -> None:
    """By a click on a heading, by state; two of them beside each other: results, options that differ, curves."""
    with held(home, training(3), "first"), held(home, failed(2), "second"), held(home, training(2), "third"):
        browser.open(serve().address())
        browser.wait_text("table.list", r"(?s)training.*failed|failed.*training")
        for expected in (["first", "second", "third"], ["third", "second", "first"]):
            browser.click("table.list th button", "run")
            assert [link.text for link in browser.all("table.list tbody a")] == expected
        browser.run(CHOOSE, "failed")
        assert [link.text for link in browser.all("table.list tbody a")] == ["second"]
        browser.run(CHOOSE, "")
        assert not browser.all("header a")
        browser.click("table.list input", "Compare first")
        browser.click("table.list input", "Compare second")
        assert browser.violations() == []
        browser.click("header a", "Compare")
        browser.wait_text("table", r"workers\t3\t2")
        rows = dict(line.split("\t", 1) for line in browser.text("table").splitlines()[1:])
        assert rows["state"] == "training\tfailed"
        assert rows["restarts"] == "1 best\t2 +100 %"  # the first run is the baseline
        assert rows["loss"] == "0.01695\t0.01695"
        assert "network" not in rows  # it is the same
        browser.wait(lambda: browser.all(".chart canvas"), "curves")
        assert browser.run("return document.querySelector('.chart').ariaLabel") == "loss over step of first, second"
        last = "return (await import('/static/compare.js')).over(...args)"
        points = {"t": [1, 2, 3, 4, 5, 5], "v": [9, 8, 7, 7, 6, None], "again": [0, 1, 0, 0, 0, 0]}
        steps = {"t": [1, 2, 3, 4, 5, 5], "v": [10, 20, 10, 20, 30, None]}
        assert browser.run(last, points, steps) == {"u": [10, 10.000001, 20, 30], "v": [9, 7, 7, 6]}
        browser.run(CHOOSE, "time")
        assert browser.run("return document.querySelector('.chart').ariaLabel") == "loss over time of first, second"
        browser.click(".chips button", "accuracy")
        browser.wait(lambda: "accuracy" in browser.run("return document.querySelector('.chart').ariaLabel"), "it")
        assert browser.violations() == []


def test_runs_are_removed_from_the_list(home: Path, serve: Callable[..., Served], browser: Browser) -> None:
    """Those that are chosen, after a question; a live one is refused; without `--control` there is no button."""
    with held(home, training(2), "live") as live, held(home, failed(2), "over") as over:
        browser.open(serve(control=False).address())
        browser.click("table.list input", "Compare over")
        assert not browser.all("header button")
        browser.open(serve().address())
        browser.click("table.list input", "Compare over")
        browser.click("header button", "Remove")
        browser.wait_text("dialog h2", "Remove over")
        assert browser.violations() == []
        browser.click("dialog button", "Remove")
        browser.wait(lambda: not over.path.exists(), "it is removed")
        browser.wait(lambda: [link.text for link in browser.all("table.list tbody a")] == ["live"], "the list")
        assert not browser.all("header button")
        browser.click("table.list input", "Compare live")
        browser.click("header button", "Remove")
        browser.expected.append("Failed to load resource")  # it is refused
        browser.click("dialog button", "Remove")
        browser.wait_text("dialog .error", "The run live is live")
        assert live.path.exists()


def test_runs_that_are_compared_are_asked_for_what_is_new(
    home: Path, serve: Callable[..., Served], browser: Browser
) -> None:
    """Of one that is over nothing is asked twice; of curves that grow, the end; and nothing once all are over."""
    told = training(2)
    with held(home, told, "live") as live, held(home, failed(2), "over"):
        browser.open(serve().address("/compare/live,over,gone"))
        browser.expected.append("gone/entities - Failed to load resource")
        browser.wait(lambda: browser.all(".chart canvas"), "curves")
        browser.wait_text("main", "There is no such run: gone")
        for step, loss in ((60, 0.25), (61, 0.125)):
            told.events.append((told.run.now + step / 100, ev.Progressed(task("worker:0"), 2, step, {"loss": loss})))
            live.write()
            browser.wait_text("table", rf"loss\t{loss}\t")
        browser.wait(lambda: "begin=" in browser.run(ASKED, "/live/series")[-1], "a part of the curve")
        assert "begin=" not in browser.run(ASKED, "/live/series")[0]
        live.end()
        browser.wait_text("table", r"state\tlost\tfailed")
        browser.wait(lambda: browser.run(STATE) == "over", "the end")
        for path in ("/over/entities", "/over/series", "/gone/entities"):
            assert len(browser.run(ASKED, path)) == 1, path


def test_hostile_comparisons_show_the_runs_there_are(
    home: Path, serve: Callable[..., Served], browser: Browser
) -> None:
    """Whatever bytes are in the address: the run among them is shown, the rest is named as text."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    browser.expected.append("Failed to load resource")  # of runs that there are not
    names = ["..", ".", "__proto__", "constructor", "<img src=x onerror=alert(1)>", "\x00", "\u202e", "x" * 900, ""]
    with held(home, failed(2), "first"):
        served = serve()
        for number in range(16):
            parts = [chance.choice(names).encode(), chance.randbytes(9).replace(b"/", b""), *[b"first"] * (number % 2)]
            if number % 4 < 2:  # UTF-8, so that the rest of it counts
                parts[1] = parts[1].decode(errors="ignore").encode()
            chance.shuffle(parts)
            path = "".join(f"%{byte:02x}" for byte in b",".join(parts))
            browser.open("about:blank")
            browser.open(served.address(f"/compare/{path}"))
            browser.wait_text("body", "There is no such run|names no run")
            if number % 2 and is_utf8(b",".join(parts)):
                browser.wait_text("thead", "first")
            else:
                assert "first" not in browser.text("thead"), path
            assert not browser.driver.find_elements("css selector", "img")
            assert browser.run("return document.scrollingElement.scrollWidth - innerWidth") == 0, path


def is_utf8(text: bytes) -> bool:
    """Whether a browser reads it."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_the_incident_that_cost_most_is_the_first(home: Path, serve: Callable[..., Served], browser: Browser) -> None:
    """One that still lasts stands above those; then by the seconds to the first new step, the longest first."""
    told = gang(workers=2)
    for number, wait in enumerate((10, 40, 20)):
        told.run.exits("worker:1", signal=SIGKILL)
        told.run.after(wait)
        step = 40 + 10 * number
        told.events += [(told.run.now, ev.Progressed(one, number + 2, step, {})) for one in told.job.tasks]
        told.run.progresses("worker:0", step)
        told.run.after(100)
    told.run.exits("worker:0", code=1, exception="ValueError: bad")
    with held(home, told) as run:
        browser.open(serve().address(f"/run/{run.path.name}"))
        browser.wait_text(".recoveries tbody", "ValueError|exited with code 1")
        cells = "return [...document.querySelectorAll('.recoveries tbody tr')].map((r) => r.cells[args[0]].textContent)"
        assert browser.run(cells, 5) == ["–", "+40.0 s", "+20.0 s", "+10.0 s"]
        assert browser.run(cells, 0)[1:] == ["2:00.0", "4:20.0", "10.0 s"]
