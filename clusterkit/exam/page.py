"""Formats an exam as an HTML page: the verdict, the chapters, a matrix of faults and phases, and each cell's findings.

The page is one file without scripts, so the page needs neither a server nor a network. Text from programs is escaped.
In the matrix, each cell's sign links to the page of the cell's run or, if that page does not exist, to the cell's
details.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape

from clusterkit.exam.model import Cell, CellResult, Chapter, Grade, Report
from clusterkit.exam.survival import PHASES
from clusterkit.exam.text import MARKS, NOT_PROVED, Replay, mark_of, recovery_of, title
from clusterkit.text.printable import printable

MARK = "<!-- clusterkit report: exam"
_ORDER = (Grade.FAILED, Grade.NOT_REACHED, Grade.PASSED, Grade.SKIPPED)  # the order of cells on the page
# The colors are those of Okabe and Ito, which color-blind people can distinguish. Each grade also has its own symbol.
_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#ccc, #444); --soft: light-dark(#666, #aaa); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; } th, td { border: 1px solid var(--line); padding: .25rem .6rem; text-align: left; }
th { font-weight: 600; } .matrix, .chapters { overflow-x: auto; } .matrix td { text-align: center; padding: 0; }
.matrix thead th { writing-mode: vertical-rl; transform: rotate(180deg); border-width: 1px 0 0 1px; }
.matrix a { display: block; padding: .25rem .6rem; text-decoration: none; color: inherit; }
.passed { background: #009e7340; } .failed { background: #d55e00; color: #fff; font-weight: 700; }
.not-reached, .skipped { color: var(--soft); }
article { border-left: 4px solid var(--line); padding: 0 1rem; margin: 1rem 0; }
article.fails { border-color: #d55e00; } article.plain { border: 0; padding: 0; margin: .3rem 0; }
.plain :is(h3, p) { display: inline; font-size: 1rem; margin: 0 .6rem 0 0; } :target { outline: 2px solid #0072b2; }
@media (max-width: 600px) { th, td, .matrix a { padding: .15rem .25rem; font-size: .8rem; }
.matrix thead th { padding: .25rem 0; line-height: 1.2; } .matrix a { padding: .15rem 0; min-width: 24px; } }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: light-dark(#f4f4f4, #222); padding: .5rem; }
"""


def page(report: Report, replay: Replay, links: Mapping[str, str] | None = None) -> str:
    """Return the page as HTML. `links` maps run ids to the addresses of the runs' pages."""
    links = links or {}
    mark = mark_of(report)
    head = (
        f'{MARK} {_safe(report.name)} -->\n<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_safe(report.name)}</title><style>{_STYLE}</style></head><body>"
    )
    body = [
        f"<h1>{mark} {_safe(report.verdict())}</h1>",
        f"<p>Exam {_safe(report.name)}, seed {report.seed}. {NOT_PROVED}</p>",
        *_chapters(report),
        *_matrix(report.results_of(Chapter.SURVIVAL), links),
        "<h2>Every cell</h2>",
        *(_details(result, replay, links) for grade in _ORDER for result in report.results if result.grade is grade),
    ]
    return "\n".join([head, *body, "</body></html>\n"])


def _chapters(report: Report) -> Iterator[str]:
    heads = ("Chapter", *(grade.capitalize() for grade in Grade))
    yield f'<div class="chapters"><table><thead>{_row("th", heads)}</thead><tbody>'
    for chapter in Chapter:
        if report.results_of(chapter):
            yield _row("td", (title(chapter), *(str(report.count(grade, chapter)) for grade in Grade)))
    yield "</tbody></table></div>"


def _matrix(results: Iterable[CellResult], links: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a table with faults as rows and phases as columns. Each cell's sign is a link."""
    cells = {tuple(result.cell.name.rsplit("/", 1)): result for result in results}
    if not cells:
        return
    phases = [str(phase) for phase in PHASES if any(key[-1] == phase for key in cells)]
    yield '<h2>Each fault in each phase</h2><div class="matrix"><table>'
    yield f"<thead>{_row('th', ('', *phases))}</thead><tbody>"
    for fault in dict.fromkeys(key[0] for key in cells):
        signs = "".join(_sign(cells.get((fault, phase)), links) for phase in phases)
        yield f'<tr><th scope="row">{_safe(fault.replace("/", " "))}</th>{signs}</tr>'
    yield "</tbody></table></div>"


def _sign(result: CellResult | None, links: Mapping[str, str]) -> str:
    if result is None:
        return "<td></td>"
    opened = [links[run] for run in result.runs if run in links]
    target = opened[-1] if opened else f"#{_anchor(result.cell)}"
    link = f'<a href="{_safe(target)}" title="{_safe(_graded(result))}">{MARKS[result.grade]}</a>'
    return f'<td class="{_kind(result.grade)}">{link}</td>'


def _details(result: CellResult, replay: Replay, links: Mapping[str, str]) -> str:
    """Return the result of a cell, with links to the runs of the cell.

    For a failed cell, add the commands that repeat the cell and that show its runs.
    """
    failed = result.grade is Grade.FAILED
    kind = "fails" if failed else "" if result.notes or result.findings else "plain"
    facts = [_graded(result), *recovery_of(result)]
    lines = [
        f'<article id="{_anchor(result.cell)}" class="{kind}">',
        f"<h3>{MARKS[result.grade]} {_safe(str(result.cell))}</h3><p>{_safe(', '.join(facts))}</p>",
    ]
    lines += [f"<p>{_safe(text)}</p>" for text in result.notes]
    for finding in result.findings:
        remedy = f"<br>→ {_safe(finding.remedy)}" if finding.remedy else ""
        lines.append(f"<p>{_safe(finding.text)}{remedy}</p>")
    if opened := [f'<a href="{_safe(links[run])}">{_safe(run)}</a>' for run in result.runs if run in links]:
        lines.append(f"<p>Open {', '.join(opened)}</p>")
    if failed:
        commands = [replay(result.cell), *(f"clusterkit show {run}" for run in result.runs)]
        lines.append(f"<pre>{_safe(chr(10).join(commands))}</pre>")
    return "\n".join([*lines, "</article>"])


def _graded(result: CellResult) -> str:
    return f"{result.grade}: {result.reason}" if result.reason else str(result.grade)


def _row(tag: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_safe(text)}</{tag}>' for text in texts)}</tr>"


def _anchor(cell: Cell) -> str:
    return _safe(str(cell).replace("/", "-").replace(":", "-"))


def _kind(grade: Grade) -> str:
    return str(grade).replace(" ", "-")


def _safe(text: str) -> str:
    return "\n".join(escape(printable(line)) for line in text.split("\n"))
