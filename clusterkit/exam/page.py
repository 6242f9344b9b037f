"""Formats an exam as an HTML page: the verdict, the chapters, a matrix of faults and phases, and each cell's findings.

The page is one file without scripts, so the page needs neither a server nor a network; the filter of cells is made of
CSS. The page has the styles of the dashboard. Text from programs is escaped. In the matrix, each cell's sign links to
the page of the cell's run or, if that page does not exist, to the cell's details.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape

from clusterkit.exam.model import NOT_COMPARABLE, Cell, CellResult, Chapter, Grade, Report
from clusterkit.exam.survival import PHASES
from clusterkit.exam.text import BUDGET_SPENT, MARKS, NOT_PROVED, Replay, mark_of, recovery_of, title
from clusterkit.text.dates import utc
from clusterkit.text.durations import compact, shown
from clusterkit.text.printable import printable

MARK = "<!-- clusterkit report: exam"
_ORDER = (Grade.FAILED, Grade.NOT_REACHED, Grade.PASSED, Grade.SKIPPED)  # the order of cells on the page
# What a mark stands for. Each grade has a mark and words of its own, so that none depends on its color.
_LEGEND = {
    Grade.PASSED: "passed",
    Grade.FAILED: "failed",
    Grade.NOT_REACHED: "not reached: the program or the job has no such moment, so nothing was tried",
    Grade.SKIPPED: "skipped: the time was up before the cell could be examined",
}
_STYLE = """
td, th { text-align: left; }
.matrix table { width: auto; }
.matrix tbody td { text-align: center; padding: 0; border: 1px solid var(--line); }
.matrix thead :is(th, td) { vertical-align: bottom; padding: 4px; }
.matrix thead span { writing-mode: vertical-rl; transform: rotate(180deg); }
.matrix td a { display: block; min-width: 26px; padding: 4px 6px; color: inherit; }
.matrix tbody th { font-family: var(--mono); font-size: 12.5px; padding: 4px 10px 4px 0; }
.passed { color: var(--ok); } .failed { color: var(--bad); font-weight: 700; } .not-reached { color: var(--wait); }
.skipped { color: var(--faint); }
td.failed { background: color-mix(in srgb, var(--bad) 12%, var(--panel)); }
td.passed { background: color-mix(in srgb, var(--ok) 8%, var(--panel)); }
.legend-line { display: flex; flex-wrap: wrap; gap: 2px 18px; margin-top: 8px; color: var(--soft); font-size: 12.5px; }
.legend-line b, .sign { display: inline-block; width: 1.2em; text-align: center; }
fieldset { border: 0; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: 2px 14px; align-items: center; }
legend { float: left; margin-right: 10px; color: var(--soft); font-size: 12.5px; padding: 3px 0; }
fieldset label { font-size: 13px; padding: 3px 0; cursor: pointer; }
fieldset input { margin: 0 5px 0 0; vertical-align: -2px; }
article { border-top: 1px solid var(--line); padding: 7px 0 8px; }
article h3 { color: var(--ink); font: 600 13px/1.5 var(--mono); margin: 0; overflow-wrap: anywhere; }
article p { font-size: 13.5px; overflow-wrap: anywhere; }
article .about { color: var(--soft); }
article pre { margin: 5px 0 0; padding: 6px 10px; white-space: pre-wrap; overflow-wrap: anywhere; border-radius: 6px;
  background: var(--raised); color: var(--ink); }
article.failed { color: inherit; font-weight: 400; border-left: 3px solid var(--bad); padding-left: 10px; }
article:is(.passed, .skipped, .not-reached) { color: inherit; }
:target { outline: 2px solid var(--focus); outline-offset: 2px; }
.brief code { overflow-wrap: anywhere; }
"""


@dataclass(frozen=True, slots=True)
class PageParts:
    """What the page needs besides the report.

    `replay` returns the command that examines a cell again. `links` maps run ids to the addresses of the runs' pages.
    `style` contains the dashboard's styles.
    """

    replay: Replay
    links: Mapping[str, str] = field(default_factory=dict)
    style: str = ""


def page(report: Report, parts: PageParts) -> str:
    """Return the page as HTML."""
    name = report.name if report.setting is None else f"{report.setting.program} · {report.name}"
    head = (
        f'{MARK} {_safe(report.name)} -->\n<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" '
        f'content="light dark"><title>{mark_of(report)} {_safe(name)} · exam</title>'
        f"<style>{parts.style}{_STYLE}{_filter_rules()}</style></head><body>"
    )
    body = [
        *_header(report),
        '<main class="stack">',
        *_chapters(report),
        *_matrix(report.results_of(Chapter.SURVIVAL), parts.links),
        *_cells(report, parts),
        *_made_with(report),
        "</main>",
        f"<footer>{NOT_PROVED}</footer>",
    ]
    return "\n".join([head, *body, "</body></html>\n"])


def _header(report: Report) -> Iterator[str]:
    """Yield the program, the counts of cells, the verdict, and what was not seen."""
    setting = report.setting
    about = [report.name] if setting is None else [report.name, setting.tasks, utc(setting.began)]
    program = "Exam" if setting is None else setting.program
    failed = report.count(Grade.FAILED) > 0 or report.invalid_reason
    tone, word = ("ok", "passed") if report.is_whole else ("bad", "failed") if failed else ("wait", "not whole")
    if report.invalid_reason:
        word = "not examined"
    yield '<header class="run"><div class="title">'
    yield f'<span class="pill {tone}">{mark_of(report)} {word}</span>'
    yield f"<h1>{_safe(program)}<small>{_safe(' · '.join(filter(None, about)))}</small></h1>"
    facts = [f'<div class="fact"><b>{report.count(grade)}</b><span>{grade}</span></div>' for grade in Grade]
    yield f'<div class="facts">{"".join(facts)}</div></div>'
    yield f'<div class="line"><p class="text">{_safe(report.verdict())}</p></div><dl class="brief">'
    if not failed:
        for line in report.why.splitlines():
            yield f"<dt>Missing</dt><dd>{_safe(line)}</dd>"
    if report.count(Grade.SKIPPED):
        yield f"<dt>Skipped</dt><dd>{BUDGET_SPENT}</dd>"
    if setting is not None:
        yield f"<dt>Command</dt><dd><code>{_safe(setting.command)}</code></dd>"
        if setting.left_out:
            told = f"{', '.join(setting.left_out)}: their values are not shown. Set them, or add --show-env."
            yield f"<dt>Variables</dt><dd>{_safe(told)}</dd>"
    yield "</dl></header>"


def _chapters(report: Report) -> Iterator[str]:
    """Yield the table of the chapters with the number of cells of each grade."""
    rows = [chapter for chapter in Chapter if report.results_of(chapter)]
    if not rows:
        return
    heads = "".join(f'<th scope="col">{_safe(text)}</th>' for text in ("Chapter", *map(str.capitalize, Grade)))
    yield from _section("Chapters")
    yield f'<div class="wide-table" tabindex="0" role="region" aria-label="Chapters"><table><thead><tr>{heads}</tr>'
    yield "</thead><tbody>"
    for chapter in rows:
        counts = "".join(f"<td>{report.count(grade, chapter)}</td>" for grade in Grade)
        yield f'<tr><th scope="row">{_safe(title(chapter))}</th>{counts}</tr>'
    yield "</tbody></table></div></section>"


def _matrix(results: Iterable[CellResult], links: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a table with faults as rows and phases as columns. Each cell's sign is a link."""
    cells = {tuple(result.cell.name.rsplit("/", 1)): result for result in results}
    if not cells:
        return
    phases = [str(phase) for phase in PHASES if any(key[-1] == phase for key in cells)]
    heads = "".join(f'<th scope="col"><span>{_safe(phase)}</span></th>' for phase in phases)
    yield from _section("Each fault in each phase")
    yield '<div class="matrix wide-table" tabindex="0" role="region" aria-label="Each fault in each phase"><table>'
    yield f"<thead><tr><td></td>{heads}</tr></thead><tbody>"
    for fault in dict.fromkeys(key[0] for key in cells):
        signs = "".join(_sign(cells.get((fault, phase)), links) for phase in phases)
        yield f'<tr><th scope="row">{_safe(fault.replace("/", " "))}</th>{signs}</tr>'
    yield "</tbody></table></div>"
    legend = [f'<span><b class="{_kind(grade)}">{MARKS[grade]}</b> {text}</span>' for grade, text in _LEGEND.items()]
    yield f'<p class="legend-line">{"".join(legend)}</p></section>'


def _sign(result: CellResult | None, links: Mapping[str, str]) -> str:
    if result is None:
        return "<td></td>"
    opened = [links[run] for run in result.runs if run in links]
    target = opened[-1] if opened else f"#{_anchor(result.cell)}"
    said = _safe(f"{result.cell.name} {_graded(result)}")
    link = f'<a href="{_safe(target)}" title="{said}" aria-label="{said}">{MARKS[result.grade]}</a>'
    return f'<td class="{_kind(result.grade)}">{link}</td>'


def _cells(report: Report, parts: PageParts) -> Iterator[str]:
    """Yield all cells, the failed ones first, below a filter."""
    if not report.results:
        return
    yield from _section("Every cell")
    yield from _filter(report)
    for grade in _ORDER:
        for result in report.results:
            if result.grade is grade:
                yield _details(result, parts)
    yield "</section>"


def _filter(report: Report) -> Iterator[str]:
    """Yield the choices of the filter: the grades and the chapters that the report has."""
    grades = [(_kind(grade), str(grade), report.count(grade)) for grade in Grade if report.count(grade)]
    chapters = [(str(one), str(one), len(report.results_of(one))) for one in Chapter if report.results_of(one)]
    for name, legend, choices in (("grade", "Show", grades), ("chapter", "of", chapters)):
        total = len(report.results)
        yield f"<fieldset><legend>{legend}</legend>"
        yield f'<label><input type="radio" name="{name}" value="all" checked>all ({total})</label>'
        for value, text, count in choices:
            yield f'<label><input type="radio" name="{name}" value="{value}">{text} ({count})</label>'
        yield "</fieldset>"


def _filter_rules() -> str:
    """Return the CSS that hides the cells that the filter excludes."""
    kinds = {"grade": [_kind(grade) for grade in Grade], "chapter": [str(chapter) for chapter in Chapter]}
    return "".join(
        f'main:has(input[name="{name}"][value="{kind}"]:checked) article:not(.{kind}) {{ display: none; }}\n'
        for name, values in kinds.items()
        for kind in values
    )


def _details(result: CellResult, parts: PageParts) -> str:
    """Return the result of a cell, with links to the runs of the cell.

    For a failed cell, add the commands that repeat the cell and that show its runs and their logs.
    """
    kind, took = _kind(result.grade), [shown(result.duration)] if result.duration else []
    facts = [_graded(result), *took, *recovery_of(result)]
    lines = [
        f'<article id="{_anchor(result.cell)}" class="{kind} {result.cell.chapter}">',
        f'<h3><span class="sign {kind}">{MARKS[result.grade]}</span> {_safe(str(result.cell))}</h3>',
        f'<p class="about">{_safe(", ".join(facts))}</p>',
    ]
    lines += [f"<p>{_safe(text)}</p>" for text in result.notes]
    for finding in result.findings:
        remedy = f"<br>→ {_safe(finding.remedy)}" if finding.remedy else ""
        lines.append(f"<p>{_safe(finding.text)}{remedy}</p>")
    opened = [f'<a href="{_safe(parts.links[run])}">{_safe(run)}</a>' for run in result.runs if run in parts.links]
    if opened:
        lines.append(f"<p>Open {', '.join(opened)}</p>")
    if result.grade is Grade.FAILED:
        shows = [f"clusterkit {name} {run}" for run in result.runs for name in ("show", "logs")]
        lines.append(f"<pre>{_safe(chr(10).join([parts.replay(result.cell), *shows]))}</pre>")
    return "\n".join([*lines, "</article>"])


def _made_with(report: Report) -> Iterator[str]:
    """Yield the seed, the budget and the versions."""
    setting = report.setting
    yield from _section("How it was made")
    facts = {"seed": str(report.seed)}
    if report.budget:
        facts["budget"] = compact(report.budget)
    if setting is not None:
        facts |= {"program": setting.program, "tasks": setting.tasks, "began": utc(setting.began), **setting.versions}
    lines = "".join(f"<dt>{_safe(name)}</dt><dd>{_safe(text)}</dd>" for name, text in facts.items())
    yield f'<dl class="brief">{lines}</dl></section>'


def _section(heading: str) -> Iterator[str]:
    yield f'<section><div class="head"><h2>{heading}</h2></div>'


def _graded(result: CellResult) -> str:
    if result.reason.startswith(NOT_COMPARABLE):
        return result.reason
    return f"{result.grade}: {result.reason}" if result.reason else str(result.grade)


def _anchor(cell: Cell) -> str:
    return _safe(str(cell).replace("/", "-").replace(":", "-"))


def _kind(grade: Grade) -> str:
    return str(grade).replace(" ", "-")


def _safe(text: str) -> str:
    return "\n".join(escape(printable(line)) for line in text.split("\n"))
