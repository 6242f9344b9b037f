"""What a run's time went into, and how it started, as entities."""

from __future__ import annotations

from collections.abc import Iterator

from clusterkit.page.entities import Goodput, Part, Segment, Startup
from clusterkit.text.printable import printable
from clusterkit.views.goodput import NAMES
from clusterkit.words import account as words
from clusterkit.words.reports import Stage

PHASES = {
    Stage.BEGUN: "waiting", Stage.SPAWNED: "process", Stage.IMPORTED: "import", Stage.SERVING: "port",
    Stage.CONNECTED: "connect", Stage.PREPARED: "prepare", Stage.STEPPED: "first step",
}  # fmt: skip


def goodput_entity(told: words.Goodput) -> Goodput | None:
    """The split of a run's time; None if no time has passed."""
    if not told.duration:
        return None
    parts = tuple(Part(NAMES[name], round(seconds, 6)) for name, seconds in told.parts.items() if seconds > 0)
    most = f"Cost most: {printable(told.most)}." if told.most else ""
    return Goodput(round(told.duration, 6), told.share, parts, most)


def startup_entities(told: words.Startup) -> Iterator[tuple[str, Startup]]:
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
