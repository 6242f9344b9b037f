"""The timeline: the events of a run as lines of text, each with its time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from clusterkit.text.printable import printable
from clusterkit.text.wrapping import at_words
from clusterkit.views.details import detail
from clusterkit.views.narrate import Level, sentence
from clusterkit.words import events as ev


def timeline(events: Iterable[tuple[float, ev.Event]], began: float | None = None) -> Iterator[tuple[float, str]]:
    """Yield the sentences about the more important events, each with the seconds since the run began."""
    for at, event in events:
        began = at if began is None else began
        told = sentence(event)
        if told is not None and told[0] >= Level.INFO:
            yield at - began, told[1]


def timeline_text(lines: Iterable[tuple[float, str]], width: int | None = None) -> str:
    """Format the timeline as text, wrapped at words if a width is given."""
    return "".join(f"{at_words(f'  {seconds:>9.1f} s  {text}', width, ' ' * 15)}\n" for seconds, text in lines)


def event_text(at: float, event: ev.Event, when: Callable[[float], str]) -> str | None:
    """Format any event as a line; None for events without a sentence, such as Ticked."""
    told = sentence(event)
    if told is not None:
        return f"{when(at)} {told[1]}"
    text = detail(event)
    return None if text is None else f"{when(at)} {printable(text)}"
