"""Spelling: suggestions for misspelled words, and lists in English."""

from __future__ import annotations

from collections.abc import Iterable


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word whose spelling is closest to `word`; None if no known word is close."""
    import difflib  # imported here: takes 5 ms, needed only after a misspelling

    return next(iter(difflib.get_close_matches(word, [*known], 1)), None)


def listed(things: Iterable[object], most: int | None = None) -> str:
    """Join texts in English: `a`, `a and b`, or `a, b and c`; if there are more than `most`, `a, b and 3 more`."""
    names = [*map(str, things)]
    if most is not None and len(names) > most:
        names[most:] = [f"{len(names) - most} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def did_you_mean(word: str, known: Iterable[str], these: str = "There are") -> str:
    """Return a sentence to add after an unknown word, with the closest known word or else all known words."""
    known = [*known]
    close = closest(word, known)
    return f"Did you mean {close}?" if close else f"{these} {', '.join(known)}."
