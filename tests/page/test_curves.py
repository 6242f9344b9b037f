"""The curves as one likes them: of one task or of all, smooth, by logarithms, as numbers; and what else can be kept."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.words import events as ev
from tests.histories import task
from tests.page.browser import Browser, Served
from tests.page.situated import ERROR, failed, held, training
from tests.page.test_page_rules import module

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(240)]
Serve = Callable[..., Served]
# Notes each file that the page saves, and each notification.
NOTED = """
window.saved = []; window.told = [];
const made = URL.createObjectURL;
URL.createObjectURL = (blob) => (blob.text().then((text) => window.saved.push(text)), made.call(URL, blob));
HTMLAnchorElement.prototype.click = function () { window.saved.push(this.download); };
document.hasFocus = () => false;
window.Notification = class {
  static permission = "default";
  static requestPermission = async () => (this.permission = "granted");
  constructor(title, { body }) { window.told.push([title, body]); }
};
"""


def saved(browser: Browser) -> tuple[str, str]:
    """The name and the text of the file that the page saves; the name is the shorter of the two."""
    browser.wait(lambda: len(browser.run("return window.saved")) == 2, "the file")
    name, text = sorted(browser.run("return window.saved"), key=len)
    return name, text


CURVE = {"u": [0, 1, 2, 3], "v": [1.0, 3.0, None, 5.0], "again": [None, 1, None, None], "task": "worker:0"}
OTHER = {"u": [1, 2.5], "v": [5.0, 7.0], "again": [None, None], "task": '=1+"x"'}


def test_rules_of_curves(browser: Browser, serve: Serve) -> None:
    """The mean of points and of tasks; what a spreadsheet gets, to which no name is a formula."""
    browser.open(serve().address())
    smooth = module(browser, "series", "return m.smooth(args[0])", CURVE)
    assert smooth["v"] == [1.0, pytest.approx((0.09 + 0.3) / 0.19), None, 5.0]
    assert smooth["again"] == [None, smooth["v"][1], None, None]
    mean = module(browser, "series", "return m.mean(args[0])", [CURVE, OTHER])
    assert mean["u"] == [0, 1, 2, 2.5, 3]
    assert [mean[name] for name in ("v", "low", "high")] == [[1, 4, 5, 7, 6], [1, 3, 5, 7, 5], [1, 5, 5, 7, 7]]
    charts = [{"metric": {"name": "lo,ss"}, "curves": [CURVE, OTHER]}, {"metric": {"name": "@x"}}]
    text = module(browser, "series", "return m.csvOf(args[0], (u) => u)", charts)
    rows = [["lo,ss", "worker:0", at, value] for at, value in (("0.000", "1"), ("1.000", "3"), ("3.000", "5"))]
    rows += [["lo,ss", '\'=1+"x"', at, value] for at, value in (("1.000", "5"), ("2.500", "7"))]
    assert list(csv.reader(text.splitlines())) == [["metric", "task", "seconds", "value"], *rows]


def test_curves_are_drawn_as_one_likes(home: Path, serve: Serve, browser: Browser) -> None:
    """In every way at once and with one task alone, without an error and with nobody kept out; then saved."""
    with held(home, failed(3)) as run:
        browser.open(serve().address(f"/run/{run.path.name}"))
        browser.run(NOTED)
        browser.wait(lambda: browser.all(".chart canvas"), "curves")
        for name in ("log scale", "smooth", "mean and range"):
            browser.click(".curves .tools button", name)
            assert browser.all(".chart canvas")
        assert browser.violations() == []
        browser.click(".curves .tools button", "as a table")
        rows = browser.text(".chart:first-child tbody").splitlines()
        assert [row.split("\t")[0] for row in rows] == ["mean"]
        browser.click(".chart .values button", "worker:1")
        browser.wait_text(".chart:first-child tbody", r"^worker:1\t")
        browser.click(".curves .tools button", "CSV")
        name, text = saved(browser)
        assert name == "r.csv"
        assert {row["task"] for row in csv.DictReader(text.splitlines())} == {"worker:1"}
        browser.click(".chart .values button", "worker:1")
        browser.wait_text(".chart:first-child tbody", "^mean")


def test_logs_are_filtered_by_severity_and_saved(home: Path, serve: Serve, browser: Browser) -> None:
    """By the prefixes of TensorFlow, absl and Python's logging; with the time of the clock; whatever is in them."""
    texts = {
        "2026-11-27 01:50:11.123456: I external/a.cc:12] fine": "",
        "2026-11-27 01:50:11.123456: W external/a.cc:12] so so": "W",
        "2026-11-27 01:50:11.123456: E external/a.cc:12] bad": "WE",
        "E0000 00:00:1732672211.1 1234 b.cc:12] bad": "WE",
        "W0000 00:00:1732672211.1 1234 b.cc:12] so so": "W",
        "I0000 00:00:1732672211.1 1234 b.cc:12] Errors: 0": "",
        "WARNING:tensorflow:so so": "W",
        "ERROR:root:bad": "WE",
        "a.py:3: UserWarning: so so": "W",
        "ValueError: bad": "WE",
        "module.SomeException": "WE",
        "<b>Epoch 3</b>, error 0.5": "",
    }
    with held(home, failed(2)) as run:
        log = run.run.log(task("worker:0"), 1)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(f"{text}\n" for text in texts))
        run.run.arrivals.write_text(f"{run.began + run.told.events[0][0] + 1} worker:0 1 {log.stat().st_size}\n")
        browser.open(serve().address(f"/run/{run.path.name}"))
        browser.run(NOTED)
        browser.wait_text(".log .row time", r"^1\.00\n")
        for option, letter in (("errors", "E"), ("warnings", "W"), ("all lines", "")):
            chosen = f"[...one.options].find((o) => o.textContent === {json.dumps(option)}).value"
            browser.run(f"const one = document.querySelector('select[aria-label^=Least]'); one.value = {chosen}; "
                        "one.dispatchEvent(new Event('change'))")  # fmt: skip
            expected = [text for text, letters in texts.items() if letter in letters]
            browser.wait(lambda: browser.text(".log .row .text").splitlines() == expected, option)  # noqa: B023
            assert browser.violations() == []
        browser.click(".log .tools button", "wall clock")
        browser.wait_text(".log .row time", r"^\d\d:\d\d:\d\d\n")
        browser.click(".log .tools button", "save")
        name, text = saved(browser)
        assert name == "r.log"
        assert [line.split(" worker:0 ", 1)[1] for line in text.splitlines()] == list(texts)


def test_news_is_a_notification_where_that_is_allowed(home: Path, serve: Serve, browser: Browser) -> None:
    """Of a stall, a failure and the end, each once; nothing before the user has allowed it."""
    told = training(3)
    with held(home, told) as run:
        browser.open(serve().address(f"/run/{run.path.name}"))
        browser.wait_text(".pill", "training")
        browser.run(NOTED)
        told._observe(ev.Stalled("worker:1 hangs in the kernel (D).", task("worker:1"), 60.0, {}), told.run.now)
        run.write()
        browser.wait_text(".pill", "stalled")
        browser.click(".links button", "Notify me")
        browser.wait(lambda: not browser.all(".links button"), "it is allowed")
        told.run.exits("worker:1", code=1, exception=ERROR)
        told.run.after(3)
        run.write()
        browser.wait_text(".pill", "recovering")
        run.end()
        browser.wait_text(".pill", "lost")
        found = browser.run("return window.told")
        assert [title for title, _ in found] == ["recovering: train.py", "lost: train.py"]
        assert ERROR in found[0][1]
