"""What a campaign says of its run, on the run's page, and runs as parts of campaigns and exams in the list."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.page.live import LiveRun
from clusterkit.page.model.verdicts import VerdictReader
from clusterkit.store.directory import RunDirectory
from clusterkit.store.examined import examined_cells, note_cells
from clusterkit.store.store import RunStore
from clusterkit.words.examined import ExaminedCell
from tests.page.browser import Browser, Served
from tests.page.situated import failed, held, training
from tests.store.test_campaigns import RECORD


def recorded(home: Path, **changes: object) -> Path:
    """The record of the campaign `chaos`, whose first run failed."""
    file = RunStore(home).campaign("chaos").path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**RECORD, **changes}))
    return file


def reader(home: Path, run_id: str = "chaos-1", part_of: str | None = "campaign/chaos") -> VerdictReader:
    """Of a run."""
    return VerdictReader(RunDirectory(RunStore(home).path / run_id), part_of)


def test_a_failed_run_says_why_the_campaign_failed_it(tmp_path: Path) -> None:
    """With the command that repeats it; a run that is not judged has no verdict."""
    recorded(tmp_path)
    found = reader(tmp_path).read()
    assert found is not None
    assert (found.campaign, found.violations) == ("chaos", ("The job failed: so.",))
    assert found.replay == "clusterkit up x.py"
    assert reader(tmp_path, "chaos-2").read() is None
    for part_of in (None, "", "exam/chaos", "campaign/", "campaign/../chaos", "campaign/none", "x" * 5000):
        assert reader(tmp_path, part_of=part_of).read() is None


def test_the_verdict_is_waited_for_as_long_as_the_campaign_lives(tmp_path: Path) -> None:
    """A record that is damaged is none, and is read again when it has changed."""
    file = recorded(tmp_path, runs=[])
    one = reader(tmp_path)
    assert (one.read(), one.is_due) == (None, False)
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert one.is_due
        file.write_text("{")
        assert one.read() is None
        recorded(tmp_path)
        assert one.read() is not None
        assert not one.is_due


CELLS = (
    ExaminedCell("exam-1", "repeat/unbroken", "passed", (), "clusterkit exam --cell=repeat/unbroken x.py"),
    ExaminedCell("exam-1", "equality/1-against-2", "failed", ("Twice.", "→ Halve."), "clusterkit exam --cell=e x.py"),
    ExaminedCell("exam-1", "survival/a", "not reached", ("it never exports",), "clusterkit exam --cell=a x.py"),
)


@pytest.mark.parametrize(
    ("cells", "failed", "text", "replay"),
    [
        (CELLS, 1, "equality/1-against-2 failed: Twice. → Halve.", CELLS[1].command),
        (CELLS[:1], 0, "repeat/unbroken passed.", CELLS[0].command),
        (CELLS[2:], 0, "survival/a was not reached: it never exports", CELLS[2].command),
    ],
)
def test_what_an_exam_says_of_its_run(
    tmp_path: Path, cells: tuple[ExaminedCell, ...], failed: int, text: str, replay: str
) -> None:
    """The cells that failed, or else all; with the command that examines the first again."""
    run = RunDirectory(RunStore(tmp_path).path / "exam-1-again")
    one = VerdictReader(run, "exam/exam-1")
    assert one.read() is None
    assert not one.is_due
    run.path.mkdir(parents=True)
    assert one.is_due
    note_cells(run, cells)
    found = one.read()
    assert found is not None
    assert (found.kind, found.campaign, len(found.violations), found.text) == ("exam", "exam-1", failed, text)
    assert found.replay == replay
    assert not one.is_due


@pytest.mark.parametrize(
    "content", ["", "{", "[1]", '[{"exam": 1}]', "[" * 100_000, '{"a": 1}', "[[]]", "x" * 2_000_000]
)
def test_a_damaged_note_of_an_exam_says_nothing(tmp_path: Path, content: str) -> None:
    """Whatever is in it."""
    run = RunDirectory(RunStore(tmp_path).path / "exam-1-again")
    run.path.mkdir(parents=True)
    run.examined.write_text(content)
    assert examined_cells(run) == ()
    assert VerdictReader(run, "exam/exam-1").read() is None


def test_no_note_is_written_into_a_run_that_was_removed(tmp_path: Path) -> None:
    """Its directory does not come back."""
    run = RunDirectory(RunStore(tmp_path).path / "exam-1-again")
    note_cells(run, CELLS)
    assert not run.path.exists()


@pytest.mark.process
def test_the_page_has_it(home: Path) -> None:
    """As an entity of the run, once the run is over."""
    recorded(home)
    told = failed(2)
    told.job = replace(told.job, part_of="campaign/chaos")
    with held(home, told, "chaos-1") as run:
        page = LiveRun(run.run)
        page.update()
        assert page.model.board.get("verdict").violations == ("The job failed: so.",)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(240)
def test_runs_are_grouped_and_compared(home: Path, serve: Callable[..., Served], browser: Browser) -> None:
    """By campaign and exam, by program, or not; with the main metric; a group is compared with one click."""
    recorded(home)
    parts = {"chaos-1": "campaign/chaos", "exam-1": "exam/exam", "exam-2": "exam/exam", "alone": None}
    runs = []
    for name, part_of in parts.items():
        told = training(2) if name == "alone" else failed(2)
        told.job = replace(told.job, part_of=part_of)
        runs.append(held(home, told, name))
    with runs[0], runs[1], runs[2], runs[3]:
        browser.open(serve().address())
        browser.wait_text("table.list", "loss 0.01695")
        groups = [row.text for row in browser.all("table.list tr.group")]
        assert sorted(groups) == ["campaign chaos1 run", "exam exam2 runsCompare"]
        assert browser.violations() == []
        choose = "const [one] = [...document.querySelectorAll('select')].filter((s) => s.ariaLabel.startsWith('How'));"
        choose += "one.value = args[0]; one.dispatchEvent(new Event('change'))"
        browser.run(choose, "")
        assert not browser.all("table.list tr.group")
        browser.run(choose, "program")
        assert [row.text.split("4")[0] for row in browser.all("table.list tr.group")] == ["train.py"]
        browser.run(choose, "part_of")
        browser.click("tr.group a", "Compare")
        browser.wait_text("table", r"exam-\d baseline\texam-\d")
        browser.open(f"http://127.0.0.1:{browser.driver.current_url.split(':')[2].split('/')[0]}/run/chaos-1")
        browser.wait_text(".brief", r"(?s)Campaign\s+chaos failed this run: The job failed: so\.\s+clusterkit up x\.py")
        note_cells(RunStore(home).run("exam-1"), CELLS)
        browser.open(f"http://127.0.0.1:{browser.driver.current_url.split(':')[2].split('/')[0]}/run/exam-1")
        said = r"(?s)Exam\s+exam-1: equality/1-against-2 failed: Twice\. → Halve\.\s+clusterkit exam"
        browser.wait_text(".brief", said)
        assert browser.violations() == []
