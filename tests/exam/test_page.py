"""The page of an exam: every link leads somewhere, and what a program says stays text."""

from __future__ import annotations

import random
from html.parser import HTMLParser

import pytest

from clusterkit.exam.model import Cell, CellResult, Chapter, ExamFinding, Grade, Report, Setting, judge, not_reached
from clusterkit.exam.page import PageParts, page
from clusterkit.exam.text import MARKS

VOID = ("meta", "br", "input")


class Read(HTMLParser):
    """Reads a page: its elements have to be closed in order; collects ids, links, classes of cells, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.kinds: list[str] = []
        self.choices: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a tag."""
        self.tags.append(tag)
        self.open += [] if tag in VOID else [tag]
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [given["href"] or ""] if "href" in given else []
        self.choices += [f"{given['name']}={given['value']}"] if tag == "input" else []
        self.kinds += [given["class"] or ""] if tag == "td" and "class" in given else []

    def handle_endtag(self, tag: str) -> None:
        """Take the end of an element."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Take text."""
        self.text += data


def read(report: Report) -> Read:
    """The page of an exam, read."""
    reader = Read()
    reader.feed(page(report, PageParts(lambda cell: f"clusterkit exam --cell={cell} train.py")))
    reader.close()
    assert reader.open == []
    return reader


def report() -> Report:
    """An exam in which one fault was not survived."""
    versions = {"clusterkit": "0.1.0", "tensorflow": "2.20.0"}
    setting = Setting("train.py", "2 workers", "clusterkit exam --workers=2 train.py", 1.8e9, versions, ("API_KEY",))
    made = Report("exam-1", 7, budget=60.0, setting=setting)
    made.add(judge(Cell(Chapter.REPEAT, "unbroken"), [], "exam-1-unbroken"))
    made.add(judge(Cell(Chapter.SURVIVAL, "kill/worker:0/saving-write"), [ExamFinding("x", "Torn.", "Mend.")], "r-1"))
    made.add(judge(Cell(Chapter.SURVIVAL, "kill/worker:1/step"), [], "r-2"))
    made.add(not_reached(Cell(Chapter.SURVIVAL, "stop/worker:1/exporting"), "worker:1 never exports"))
    made.add(judge(Cell(Chapter.SURVIVAL, "power-failure/saving-rename"), []))
    made.add(CellResult(Cell(Chapter.SURVIVAL, "term/worker:0/step"), Grade.SKIPPED, reason="the time was up"))
    return made


def test_the_matrix_has_a_place_for_each_fault_in_each_phase() -> None:
    """In the order of the phases, and each leads to its details."""
    shown = read(report())
    assert shown.kinds == ["failed", "passed", "not-reached", "passed", "skipped"]
    assert len(set(shown.ids)) == len(shown.ids) == 6
    assert {link.removeprefix("#") for link in shown.links} <= set(shown.ids)
    assert shown.text.index("saving-write") < shown.text.index("exporting")


@pytest.mark.parametrize(
    "words",
    [
        "✘ failed",
        "3 of 6 cells passed, 1 failed; 1 not reached, 1 not run within 1m. Nothing of equality and resume was",
        "train.pyexam-1 · 2 workers · 2027-01-15 08:00:00 UTC",
        "clusterkit exam --workers=2 train.py",
        "API_KEY: their values are not shown",
        "tensorflow2.20.0",
        "not reached: the program or the job has no such moment",
        "skipped: the time was up before the cell could be examined",
        "Torn.→ Mend.",
        "clusterkit exam --cell=survival/kill/worker:0/saving-write train.py\nclusterkit show r-1\nclusterkit logs r-1",
        "worker:1 never exports",
        "It does not prove that there are none",
    ],
)
def test_the_page_says(words: str) -> None:
    """What failed, what to do, how to see it again, and what was not examined."""
    assert words in read(report()).text


def test_the_filter_has_the_grades_and_chapters_that_there_are() -> None:
    """And the page has a rule for each choice."""
    made = report()
    grades, chapters = ("passed", "failed", "not-reached", "skipped"), ("repeat", "survival")
    assert read(made).choices == [
        *("grade=all", *(f"grade={name}" for name in grades)),
        *("chapter=all", *(f"chapter={name}" for name in chapters)),
    ]
    text = page(made, PageParts(str))
    for name in (*grades, *chapters):
        assert f'[value="{name}"]:checked) article:not(.{name})' in text


def test_a_grade_is_told_without_its_color() -> None:
    """What was not reached has another mark than what was skipped."""
    assert len(set(MARKS.values())) == len(Grade)


@pytest.mark.parametrize(
    ("grade", "said"), [(Grade.PASSED, "– not whole"), (Grade.SKIPPED, "– not whole"), (Grade.FAILED, "✘ failed")]
)
def test_the_pill_says_how_the_exam_ended(grade: Grade, said: str) -> None:
    """One that has not seen every chapter has not passed, and the page says what is missing."""
    made = report()
    made.results[1] = CellResult(Cell(Chapter.RESUME, "x"), grade, "why so")
    assert said in read(made).text
    assert ("Missing" in read(made).text) == (grade is not Grade.FAILED)


def test_an_exam_that_could_not_begin_has_a_page() -> None:
    """With the reason."""
    assert "fails even unbroken" in read(Report("exam-1", 7, invalid_reason="it fails even unbroken.")).text


def test_each_cell_opens_its_run() -> None:
    """The last of its runs, if that has a page; another cell leads to what was found."""
    made = report()
    made.add(judge(Cell(Chapter.SURVIVAL, "term/worker:1/step"), [], "r-3", "r-4"))
    reader = Read()
    links = {"r-1": "x.runs.html#run/r-1", "r-4": 'x".runs.html#run/r-4'}
    reader.feed(page(made, PageParts(str, links)))
    assert reader.open == []
    opened = [link for link in reader.links if not link.startswith("#")]
    assert opened == ["x.runs.html#run/r-1", 'x".runs.html#run/r-4', "x.runs.html#run/r-1", 'x".runs.html#run/r-4']
    assert len([link for link in reader.links if link.startswith("#")]) == 4


def test_hostile_words_stay_text() -> None:
    """Whatever a program prints into its errors or names its variables."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)
    plain = set(read(report()).tags)
    for _ in range(50):
        noise = bytes(chance.randrange(256) for _ in range(chance.randrange(80))).decode("latin-1")
        said = chance.choice(("<script>alert(1)</script>", '"><img src=x onerror=y>', "</article>", "\x1b[31m")) + noise
        made = report()
        made.add(
            CellResult(Cell(Chapter.RESUME, "x"), Grade.FAILED, said, (ExamFinding("x", said, said),), runs=(said,))
        )
        made.invalid_reason = said
        shown = read(made)
        assert set(shown.tags) == plain
        assert "\x1b" not in shown.text
