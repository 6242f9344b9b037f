"""Bars: each task's attempts and the phases of its start with their segments, and the lines between failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from clusterkit.ledger import attempts as ledger
from clusterkit.ledger.attempts import Attempts
from clusterkit.page.entities import Attempt, Goodput, Link, Part, Segment, Startup
from clusterkit.text.printable import printable
from clusterkit.views.goodput import NAMES
from clusterkit.words import goodput as words
from clusterkit.words import startup as start_words
from clusterkit.words.startup import Stage

PHASES = {
    Stage.BEGUN: "waiting", Stage.SPAWNED: "process", Stage.IMPORTED: "import", Stage.SERVING: "port",
    Stage.CONNECTED: "connect", Stage.PREPARED: "prepare", Stage.STEPPED: "first step",
}  # fmt: skip


def bar(of: ledger.Attempt, lost_at: float | None = None) -> Attempt:
    """An attempt as it is shown; `lost_at` is when the run was lost, which ended what had not ended."""
    end, how, text = of.end, of.how, of.text
    if end is None and lost_at is not None:
        end, how, text = max(lost_at, of.begin), "lost", "was lost with its supervisor"
    return Attempt(
        task=str(of.task),
        attempt=of.number,
        begin=of.begin,
        end=end,
        how=how,
        text=text,
        segments=tuple(_segments(of, end)),
        steps=None if of.first is None or of.last is None else (of.first, of.last),
        resumed=of.resumed,
    )


def links(attempts: Attempts) -> Iterator[Link]:
    for key in attempts.collateral:
        effect = attempts.get(*key)
        if effect is None or (told := effect.told) is None or told.role is None:
            continue
        end = told.started if told.ended is None else told.ended
        cause = attempts.get(told.role.task, told.role.attempt)
        at = end if cause is None or cause.end is None else cause.end
        text = f"{told.task} {told.exit}, after {told.role.task} had failed"
        yield Link((str(told.role.task), at), (str(told.task), end), text)


def _segments(of: ledger.Attempt, end: float | None) -> list[Segment]:
    segments = [Segment(of.begin, end, "start")]
    if of.working is not None:
        segments = _over(segments, Segment(of.working, end, "run"))
    if of.lost is not None:
        segments = _over(segments, Segment(of.lost, end, "lost", "These steps were computed again."))
    for stop in of.stops:
        segments = _over(segments, Segment(stop.begin, end if stop.end is None else stop.end, stop.kind, stop.text))
    return segments


def _over(segments: Iterable[Segment], new: Segment) -> list[Segment]:
    """The segments with a new one over them, which covers what it overlaps."""
    begin, end = new.begin, float("inf") if new.end is None else new.end
    found = list[Segment]()
    for old in segments:
        old_end = float("inf") if old.end is None else old.end
        if old.begin < begin:
            found.append(Segment(old.begin, old.end if old_end <= begin else begin, old.kind, old.text))
        if old_end > end:
            found.append(Segment(max(old.begin, end), old.end, old.kind, old.text))
    if end > begin:
        found.append(new)
    return sorted(found, key=lambda one: one.begin)


def goodput_entity(told: words.Goodput) -> Goodput | None:
    if not told.duration:
        return None
    parts = tuple(Part(NAMES[name], round(seconds, 6)) for name, seconds in told.parts.items() if seconds > 0)
    most = f"Cost most: {printable(told.most)}." if told.most else ""
    return Goodput(round(told.duration, 6), told.share, parts, most)


def startup_entities(told: start_words.Startup) -> Iterator[tuple[str, Startup]]:
    """How each task's first attempt got to its first step, by its key."""
    for start in told.tasks:
        times = [(stage, at) for stage in Stage if (at := start.at(stage)) is not None]
        links = [(link.begin, link.end) for link in told.chain if link.task == start.task]
        phases, critical, before = list[Segment](), list[bool](), 0.0
        for stage, at in times:
            if at > before:
                phases.append(Segment(before, at, stage.value, PHASES[stage]))
                critical.append(any(begin < at and before < end for begin, end in links))
            before = max(before, at)
        if phases:
            yield f"startup/{start.task}", Startup(str(start.task), tuple(phases), tuple(critical))
