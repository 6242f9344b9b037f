"""The page can be read: at four widths, with three tasks and with sixteen, and by those who use no eyes or no mouse."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.words import events as ev
from tests.histories import task
from tests.page.browser import Browser, Served
from tests.page.situated import ERROR, SITUATIONS, held

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(240)]
Serve = Callable[..., Served]
WIDTHS = {1600: 1000, 1280: 800, 1000: 800, 420: 900}
# What is wider than what it is in, but for the log and code, which scroll, and a summary with a title.
CUT = """
const scrolls = ".lines, pre, code, .unseen, .u-wrap, td.words[title]";
return [...document.querySelectorAll("#app *")].filter((one) => {
  if (!one.checkVisibility({ visibilityProperty: true }) || one.closest(scrolls)) return false;
  const { right, left } = one.getBoundingClientRect();
  const inside = one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== "visible";
  return inside || right > innerWidth + 1 || left < -1;
}).map((one) => `${one.tagName} ${one.className} ${one.innerText?.slice(0, 60)}`);
"""

SPEEDS = """
await new Promise(requestAnimationFrame);
const legend = document.querySelector(".chart[aria-label^='steps/s '] .values");
const speeds = [document.querySelector(".fact.speed b"), legend.querySelector("b")].map((one) => one.textContent);
return [...speeds.map((text) => Number(text) || text), legend.querySelector("time").textContent];
"""


@pytest.mark.parametrize("workers", [3, 16])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_nothing_is_cut_and_nothing_scrolls_sideways(
    situation: str, workers: int, home: Path, serve: Serve, browser: Browser
) -> None:
    """Whatever the width is; every task has its row, its lane and its curve."""
    with held(home, SITUATIONS[situation](workers)) as run:
        browser.open(serve().address(f"/run/{run.path.name}"))
        browser.wait_text(".pill", situation)
        browser.wait(lambda: browser.all(".chart canvas"), "curves")
        for width, height in WIDTHS.items():
            browser.look(width, height)
            browser.wait(lambda: browser.run("return innerWidth") == width, "the width")  # noqa: B023
            browser.run("await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            wide = browser.run("return document.scrollingElement.scrollWidth - innerWidth")
            found = browser.run(CUT)
            assert [(width, one) for one in found] == []
            assert (width, wide) == (width, 0)
        assert len(browser.all(".tasks tbody[data-task]")) == workers
        assert len(browser.all(".names .task")) == workers


def test_the_list_of_runs_has_rows_of_one_line(home: Path, serve: Serve, browser: Browser) -> None:
    """At any width: columns are left out, the last ones first, and what is left is in one line."""
    with held(home, SITUATIONS["training"](16), "20261126-201500-abcd"), held(home, SITUATIONS["failed"](3)):
        browser.open(serve().address())
        browser.wait_text("table.list", r"failed\s+train.py")
        for width, height in WIDTHS.items():
            browser.look(width, height)
            browser.wait(lambda: browser.run("return innerWidth") == width, "the width")  # noqa: B023
            found = browser.run(CUT)
            assert not found, (width, found)
            high = browser.run(
                "return [...document.querySelectorAll('table.list tbody tr')].map((r) => r.offsetHeight)"
            )
            assert max(high) < 36, (width, high)


@pytest.mark.parametrize(("width", "workers", "scheme"), [(1280, 16, "light"), (1280, 3, "dark"), (420, 3, "light")])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_nobody_is_kept_out(
    situation: str, width: int, workers: int, scheme: str, home: Path, serve: Serve, browser: Browser
) -> None:
    """WCAG 2.2, level AA, as far as axe-core can tell: of the run's page, a dialog there, and the list of runs."""
    browser.look(width, 900, scheme)
    with held(home, SITUATIONS[situation](workers)) as run:
        served = serve()
        browser.open(served.address(f"/run/{run.path.name}"))
        browser.wait_text(".pill", situation)
        browser.wait(lambda: browser.all(".chart canvas"), "curves")
        assert browser.violations() == []
        if situation != "failed":
            browser.click(".tasks .tools button", "Fault")
            browser.wait_text("dialog h2", "Inject")
            assert browser.violations() == []
        browser.open(served.address())
        browser.wait_text("table.list", f"{situation}\\s+train.py")
        assert browser.violations() == []


def test_the_curves_are_a_table_on_request(home: Path, serve: Serve, browser: Browser) -> None:
    """A row for each task, with values that it reported; and curves again."""
    with held(home, SITUATIONS["failed"](3)) as run:
        browser.open(serve().address(f"/run/{run.path.name}"))
        browser.wait(lambda: browser.all(".chart canvas"), "curves")
        browser.click(".curves .tools button", "as a table")
        browser.wait_text(".chart tbody", r"worker:2\t[^\n]*\t0\.01639")
        assert browser.violations() == []
        assert not browser.all(".chart canvas")
        rows = browser.text(".chart:first-child table").splitlines()
        assert [row.split("\t")[0] for row in rows if "\t" in row] == ["task", "worker:0", "worker:1", "worker:2"]
        browser.click(".curves .tools button", "as a table")
        assert browser.all(".chart canvas")


def test_news_is_spoken_and_nothing_is_ended_by_mistake(home: Path, serve: Serve, browser: Browser) -> None:
    """A failure, a stall and the end reach screen readers once; Enter in the dialog that ends the run does not."""
    told = SITUATIONS["training"](3)
    with held(home, told) as run:
        browser.open(serve().address(f"/run/{run.path.name}"))
        browser.wait_text(".pill", "training")
        browser.click(".tasks .tools button", "End the run")
        assert browser.run("return document.activeElement.textContent") == "Cancel"
        browser.press("ENTER")
        browser.wait(lambda: not browser.all("dialog"), "the dialog is closed")
        assert browser.run("return document.querySelector('header.run [role=alert]').textContent") == ""
        told._observe(ev.Stalled("worker:1 hangs in the kernel (D).", task("worker:1"), 60.0, {}), told.run.now)
        run.write()
        browser.wait_text("header.run [role=alert]", r"^stalled: .*worker:1 hangs")
        told.run.exits("worker:1", code=1, exception=ERROR)
        told.run.after(3)
        run.write()
        browser.wait_text("header.run [role=alert]", r"^recovering: .*dense_7")
        run.end()
        browser.wait_text("header.run [role=alert]", r"^lost: ")


@pytest.mark.parametrize(
    ("situation", "title", "states"),
    [
        ("training", "Recovered: worker:1 was killed by SIGKILL", "running · attempt 2"),
        ("stalled", "Stalled since then", "stalled · attempt 2"),
        ("failed", f"worker:1 failed: {ERROR}", "failed · attempt 3"),
    ],
)
def test_the_story_and_the_tasks_are_of_now(
    home: Path, serve: Serve, browser: Browser, situation: str, title: str, states: str
) -> None:
    """A stall that lasts comes before the recoveries that are over, and a task's state is that of its attempt."""
    with held(home, SITUATIONS[situation](3)) as run:
        browser.open(serve().address(f"/run/{run.path.name}"))
        browser.wait_text(".moment h2", rf" · {re.escape(title)}$")
        browser.wait_text("tbody[data-task='worker:1'] .state", f"^{states}$")


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_first_screen_says_why_and_what_to_do(situation: str, home: Path, serve: Serve, browser: Browser) -> None:
    """The state, the reason and the next command stand at the top of a small window, in letters of the usual size."""
    with held(home, SITUATIONS[situation](3)) as run:
        browser.look(1280, 800)
        browser.open(serve().address(f"/run/{run.path.name}"))
        browser.wait_text(".brief", r"(?s)Why\s+\S.*What to do\s+\S.*clusterkit \w+")
        brief = "return document.querySelector('.brief').getBoundingClientRect().bottom"
        assert browser.run(brief) < 260
        small = (
            "return [...document.querySelectorAll('.line .text, .brief dd')].map((e) => getComputedStyle(e).fontSize)"
        )
        assert set(browser.run(small)) == {"15px"}


def test_what_is_not_earned_is_not_told_as_earned(home: Path, serve: Serve, browser: Browser) -> None:
    """Of a stall: which step is saved, how many steps are not, since when it lasts, and when it was noticed."""
    with held(home, SITUATIONS["stalled"](16)) as run:
        browser.open(serve().address(f"/run/{run.path.name}"))
        browser.wait_text(".fact.step", r"^59\s+last step; 20 is saved$")
        browser.wait_text(".fact.goodput", r"%\s+goodput; 39 steps not saved$")
        browser.wait_text(".brief", r"That restarts 16 workers from ckpt-20; 39 steps to train again")
        browser.wait_text(
            ".moment", r"(?s)^50\.0 s · Stalled since then.*\+60\.0 s\s+worker:1 hangs in the kernel \(D\)"
        )
        browser.wait_text(".stalls", r"50\.0 s, noticed at 1:50\.0: worker:1 hangs")


def test_an_error_stands_once_above_the_lanes(home: Path, serve: Serve, browser: Browser) -> None:
    """As the reason, not as the reason and below it once more; and once in the story, as its title."""
    with held(home, SITUATIONS["failed"](3)) as run:
        browser.open(serve().address(f"/run/{run.path.name}"))
        browser.wait_text(".brief .error", re.escape(ERROR))
        assert browser.text(".brief").count(ERROR) == 1
        assert browser.text(".moment").count(ERROR) == 1
        assert browser.run("return document.querySelector('[aria-label=\"All of the run\"]').disabled"), "all is shown"


def test_numbers_of_the_present_are_the_same_everywhere(home: Path, serve: Serve, browser: Browser) -> None:
    """The headline, the row of the task, and the curve have the same loss and speed."""
    with held(home, SITUATIONS["training"](3)) as run:
        browser.open(serve().address(f"/run/{run.path.name}"))
        browser.wait_text(".chart[aria-label^='loss '] .values", r"worker:0\s+0\.01695")
        browser.wait_text(".chart[aria-label^='steps/s '] .values", r"worker:0\s+\d")
        assert "loss 0.01695" in browser.text(".line .text")
        assert "loss 0.01695" in browser.text("tbody[data-task='worker:0']")
        for _ in range(20):
            *speeds, about = browser.run(SPEEDS)
            assert len(set(speeds)) == 1, speeds
            assert re.fullmatch(r"mean over [\d.]+ s", about)
