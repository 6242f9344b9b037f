"""A report in the browser: from disk, with the network off, and what it shows is what the campaign's JSON says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from clusterkit.page import report_file
from clusterkit.page.report_file import RunsReport
from clusterkit.store.store import RunStore
from tests.commands import Clusterkit
from tests.page.browser import Browser
from tests.page.situated import ERROR, failed, held, training
from tests.support import CHILDREN

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(300)]
OFFLINE = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}


@pytest.mark.long
def test_the_report_of_a_campaign_opens_from_disk(ck: Clusterkit, browser: Browser, tmp_path: Path) -> None:
    """Its runs, failures and replay commands; a run that failed can be looked at, with its log, and left again."""
    chaos = ("chaos", "--json", "--runs", "4", "--seed", "1", "--parallel", "4", "--shrink", "0", "--actions", "kill")
    job = ("--restart-backoff", "0.1", "--workers", "2", "--ps", "1", "--fault", "kill chief:0 @ step=25")
    program = (CHILDREN / "mimic.py", "--steps", "40", "--every", "10", "--forget-restore")
    told = json.loads(ck(*chaos, *job, *program, code=1, deadline=200).out)
    path = tmp_path / "chaos.html"
    ck("report", told["campaign"], "-o", path)
    failing = [run for run in told["runs"] if run["violations"]]
    assert failing
    browser.driver.execute_cdp_cmd("Network.enable", {})
    browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", OFFLINE)
    try:
        browser.open(path.as_uri())
        browser.wait_text("body", re.escape(told["campaign"]))
        for run in told["runs"]:
            row = browser.text(f"#of-{run['run']}")
            assert ("failed" if run["violations"] else "passed") in row
            assert str(run["seed"]) in row
            assert all(fault in row for fault in run["faults"])
        failures = browser.text(".failure")
        for run in failing:
            assert run["replay"] in failures
            assert all(violation in failures for violation in run["violations"])
        browser.click("a", "open")
        browser.wait_text("body", re.escape(failing[0]["run_id"]))
        browser.wait_text("body", "killed by SIGKILL")
        browser.click("a", "The campaign")
        browser.wait_text("body", f"seed {told['seed']}")
        loaded = browser.run("return performance.getEntriesByType('resource').map((one) => one.name.slice(0, 5))")
        assert set(loaded) <= {"data:"}
    finally:
        browser.driver.execute_cdp_cmd("Network.disable", {})


def test_runs_of_an_exam_open_from_disk(
    home: Path, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that the address names, with its way back; one too many is left out, and so is one that is not there."""
    with held(home, failed(3), "first") as first, held(home, training(2), "second") as second:
        report = RunsReport("runs of exam-1", ("exam.html", "The exam"))
        for run in (first.run, second.run, second.run, type(first.run)(tmp_path / "none")):
            report.add(run)
        assert report.run_ids == {"first", "second"}
        monkeypatch.setattr(report_file, "MOST_RUNS_TOGETHER", 1)
        small = RunsReport("runs of exam-1", ("exam.html", "The exam"))
        for run in (first.run, second.run):
            small.add(run)
        assert small.run_ids == {"first"}
    file = tmp_path / "exam.runs.html"
    file.write_text(report.html())
    browser.open(f"{file.as_uri()}#run/second")
    browser.wait_text(".pill", "training")
    assert browser.all("header a")[0].get_attribute("href") == (tmp_path / "exam.html").as_uri()
    browser.open("about:blank")
    for address in (file.as_uri(), f"{file.as_uri()}#run/nobody", f"{file.as_uri()}#run/first"):
        browser.open(address)
        browser.wait_text(".brief .error", re.escape(ERROR))
        browser.open("about:blank")


def test_a_search_without_an_end_does_not_freeze_a_report(home: Path, browser: Browser, tmp_path: Path) -> None:
    """It is ended with a sentence, the page answers all the while, and the next search works."""
    with held(home, training(2), "first") as live:
        log = live.run.log(live.told.job.tasks[0], 1)
        log.parent.mkdir(exist_ok=True)
        log.write_text(f"{'word ' * 60}!\n" + "".join(f"train step {number}\n" for number in range(50)))
        live.told.run.after(1)
        live.end()
        made = report_file.report(live.run, report_file.Format.HTML, RunStore(home))
    file = tmp_path / "report.html"
    file.write_text(made)
    browser.open(file.as_uri())
    browser.wait_text(".rows", "train step 49")
    browser.type("input[aria-label^=Filter]", r"/(\w+\s?)*step (\d+)$/")
    slept = browser.run(
        """let longest = 0; const until = performance.now() + 4000;
        while (performance.now() < until) {
          const before = performance.now();
          await new Promise((done) => setTimeout(done, 20));
          longest = Math.max(longest, performance.now() - before);
        } return longest;"""
    )
    assert slept < 1500
    browser.wait_text(".log .error", "takes too long")
    browser.type("input[aria-label^=Filter]", r"/step 4\d$/")
    browser.wait(lambda: browser.text(".rows").count("train step") == 10, "ten lines match")
    assert browser.text(".log .error") == ""


def test_a_report_tells_without_scripts_and_is_dated(home: Path, browser: Browser, tmp_path: Path) -> None:
    """The text of a live run says as of when; a browser that runs no scripts shows what Markdown would."""
    with held(home, training(2), "first") as live:
        made = report_file.report(live.run, report_file.Format.HTML, RunStore(home))
        text = report_file.report(live.run, report_file.Format.MARKDOWN, RunStore(home))
    file = tmp_path / "report.html"
    file.write_text(made)
    browser.open(file.as_uri())
    browser.wait_text("header .text", r"As of \d{4}-\d\d-\d\d \d\d:\d\d: Step")
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(file.as_uri())
        shown = browser.driver.find_element("css selector", "noscript pre").text
        assert text.splitlines()[0] in shown
        assert "worker:1" in shown
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
