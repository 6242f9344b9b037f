"""Explanations as text: why something failed and what to do about it, wrapped to the width of the terminal."""

from __future__ import annotations

from collections.abc import Iterable

from clusterkit.text.printable import at_words, printable
from clusterkit.words.explanation import Explanation
from clusterkit.words.outcome import RunResult

NARROWEST = 40  # columns; the minimum width of the text


def explanation_lines(result: RunResult, width: int) -> list[str]:
    """Return lines that explain a run's failure, between two empty lines; no lines if there is no explanation.

    The explanation that tasks trained alone is left out, because the report contains that fact anyway.
    """
    recovered = result.overcome and result.undistributed is None and not result.unfinished
    head = ["  The job recovered from this failure:"] if recovered else []
    return [*head, "", *lines_of(result.exact, width, "    "), ""] if result.exact else []


def lines_of(explanations: Iterable[Explanation], width: int, indent: str = "") -> list[str]:
    """Return the lines of all explanations, with an empty line between two explanations."""
    lines: list[str] = []
    for explanation in explanations:
        parts = [("Why: ", explanation.means), ("Fix: ", explanation.advice)]
        parts += [("See: ", " ".join(map(address, explanation.reported)))] if explanation.reported else []
        lines += [""] if lines else []
        for title, text in parts:
            label = indent + title
            lines += at_words(label + printable(text), max(width, NARROWEST), " " * len(label)).split("\n")
    return lines


def address(thread: str) -> str:
    """Return the address of a GitHub thread that is written as `owner/repository#number`."""
    repository, _, number = thread.partition("#")
    return f"https://github.com/{repository}/issues/{number}"
