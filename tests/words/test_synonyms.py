"""Other words for the actions of faults."""

from __future__ import annotations

from clusterkit.words.faults import SYNONYMS, FaultAction


def test_no_synonym_is_an_action() -> None:
    """Each action has its own words."""
    assert not set(SYNONYMS) & set(FaultAction)
    assert set(SYNONYMS.values()) == set(FaultAction) - {FaultAction.RESET}
