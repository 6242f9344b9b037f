"""What a cell shows of a run's output: bounded, in tabs, and safe in HTML."""

from __future__ import annotations

import html.parser
import json
import random
import re

import pytest

from clusterkit.notebook.output import ALL_ROOM, LINES, LONGEST, REPORT_ROOM, TASKS_ROOM, CellOutput, panes, tabs

TASKS = ("chief:0", "worker:0", "worker:1")


def fed(*chunks: bytes, tasks: tuple[str, ...] = TASKS) -> CellOutput:
    """An output that has got these chunks and has ended."""
    output = CellOutput()
    output.tasks = tasks
    for chunk in chunks:
        output.feed(chunk)
    output.end()
    return output


def test_each_line_is_in_the_tab_of_its_task() -> None:
    """And in the first one, with its prefix; the supervisor's sentences are in that alone."""
    output = fed(
        "clusterkit │ run x\nchief:0    │ a │ b\nworker:1   │ c".encode(), "\nworker:*   │ both\n✔ done\n".encode()
    )
    assert output.lines() == ["clusterkit │ run x", "chief:0    │ a │ b", "worker:1   │ c", "worker:*   │ both"]
    assert output.lines("chief:0") == ["a │ b"]
    assert output.lines("worker:0") == ["both"]
    assert output.lines("worker:1") == ["c", "both"]
    assert output.report == ["✔ done"]


def test_only_the_newest_lines_are_kept() -> None:
    """So many for each tab, and so much of each."""
    output = fed(
        *(f"worker:0   │ line {number}\n".encode() for number in range(1000)), b"worker:1 \xe2\x94\x82 quiet\n"
    )
    assert output.lines("worker:0") == [f"line {number}" for number in range(1000 - LINES, 1000)]
    assert output.lines("worker:1") == ["quiet"]
    assert len(output.lines()) == LINES


def test_a_line_without_an_end_is_cut() -> None:
    """However long it is, and in whatever pieces it comes."""
    output = fed("worker:0 │ ".encode(), *[b"x" * 10_000] * 100, b"\nworker:0 \xe2\x94\x82 next\n")
    long, following = output.lines("worker:0")
    assert len(long) <= LONGEST + 1
    assert long.endswith("…")
    assert following == "next"


def test_unknown_tasks_have_no_tab() -> None:
    """Whatever a line begins with, the tabs are those of the job."""
    output = fed("worker:7 │ a\nps:* │ b\n:* │ c\n".encode())
    assert [output.lines(task) for task in (*TASKS, "worker:7")] == [[]] * 4


class Checked(html.parser.HTMLParser):
    """Reads HTML, and notes its elements, its text, and whether each one is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements = set[str]()
        self.attributes = set[str]()
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "input":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_what_a_task_writes_is_text() -> None:
    """No element, no attribute and no entity comes from it, in any tab."""
    line = "</code></pre><script>alert(1)</script><img src=x onerror=y> &lt; &amp; \" '"
    output = fed(f"worker:0 │ {line}\n{line}\n".encode())
    shown = panes("key", output, line)
    page = Checked(shown["text/html"])
    assert page.open == []
    assert page.elements == {"div", "details", "summary", "pre", "code"}
    assert page.attributes == {"class", "open", "style"}
    assert page.text.count(line) == 4  # all, its own, the status, the report
    assert shown["text/plain"].splitlines() == [f"worker:0 │ {line}", line, line]


def test_tabs_are_plain_html() -> None:
    """Radio buttons and styles: no script, nothing from elsewhere."""
    page = Checked(tabs("key", ["worker:0", "<b>"])["text/html"])
    assert (page.open, page.elements) == ([], {"style", "div", "input", "label"})
    assert "url(" not in page.text
    assert page.text.endswith("allworker:0<b>")
    assert tabs("key", ["worker:0"])["text/plain"] == "all worker:0"


@pytest.mark.parametrize("count", [1, 2, 40])
def test_hostile_output_is_bounded_and_well_formed(count: int) -> None:
    """Random bytes, also escape sequences and halves of characters, in random pieces, of up to 40 tasks."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    names = tuple(f"worker:{number}" for number in range(count))
    pieces = [b"\n", b"\r", b"<", b"&", b'"', b"\x1b[31m", b"\x1b]0;x\x07", b"\x00", b"\xe2\x94", " │ ".encode()]
    pieces += [b"\xff", b"\xe2\x80\xae", b"\xed\xa0\x80", b"</code>", b"word " * 50, b"<" * 700]
    pieces += [f"\n{name} │ ".encode() for name in names] * 2
    output = fed(*(b"".join(dice.choices(pieces, k=dice.randrange(60))) for _ in range(400)), tasks=names)
    shown = panes("key", output, "")
    assert Checked(shown["text/html"]).open == []
    assert len(shown["text/html"]) < ALL_ROOM + TASKS_ROOM + 6 * REPORT_ROOM + 200 * (count + 1)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", "".join(shown.values()))
    assert json.loads(json.dumps(shown)) == dict(shown)
