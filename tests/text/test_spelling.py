"""What a misspelled word may have meant."""

from __future__ import annotations

import pytest

from clusterkit.text.spelling import closest, did_you_mean


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("wroker", "Did you mean worker?"),
        ("chef", "Did you mean chief?"),
        ("", "There are chief, worker, ps."),
        ("banana", "There are chief, worker, ps."),
    ],
)
def test_a_close_word_or_else_all(word: str, sentence: str) -> None:
    """One word that is spelled alike is suggested; without one, all that there are."""
    assert did_you_mean(word, iter(("chief", "worker", "ps"))) == sentence
    assert (closest(word, ("chief", "worker", "ps")) is None) == sentence.startswith("There")
