"""A campaign's record as entities."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from clusterkit.page.model.campaigns import CampaignEntity, action_of, campaign_entities
from clusterkit.page.model.entities import CampaignRun
from clusterkit.words.campaign import campaign_record
from tests.store.test_campaigns import RECORD, RUN

CUT = {**RUN, "run": 3, "run_id": "chaos-3", "violations": [], "shrunk": None}


def entities(kept: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    """Of the record, with changes."""
    return campaign_entities(campaign_record({**RECORD, **changes}, "chaos"), kept)


def test_each_run_is_an_entity() -> None:
    """With what the record says of it; one whose directory is there can be looked at."""
    found = entities(kept=("chaos-1",))
    assert set(found) == {"campaign", "of/1", "of/2"}
    assert found["of/1"] == CampaignRun(
        number=1, seed=7, actions=("kill",), faults=("kill chief:0 @ step=3",), outcome="failed",
        violations=("The job failed: so.",), seconds=2.5, recoveries=(1.5,), lost=(4,), replay="clusterkit up x.py",
        run="chaos-1",
    )  # fmt: skip
    assert (found["of/2"].outcome, found["of/2"].actions, found["of/2"].run) == ("running", ("stop",), None)


def test_the_campaign_counts_its_runs() -> None:
    """And has the times of recoveries by what was injected."""
    campaign: CampaignEntity = entities()["campaign"]
    assert (campaign.asked, campaign.passed, campaign.failed, campaign.running) == (3, 0, 1, 1)
    assert [asdict(tally) for tally in campaign.tallies] == [
        {"action": "kill", "type": "", "injected": 1, "recovered": 1, "seconds": (1.5,)}
    ]
    assert campaign.baseline is not None
    assert campaign.baseline.checkpoints == (5,)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "0 of 1 run passed; 3 were asked for."),
        ({"asked_for": 1}, "0 of 1 run passed."),
        ({"problem": "it exits", "baseline": None}, "The job fails even without faults: it exits."),
        ({"problem": "The disk is full."}, "The campaign could not continue: The disk is full."),
        ({"runs": []}, "No run has ended yet."),
        ({"runs": [], "state": "stopped"}, "No run has ended."),
        ({"baseline": None}, "The run without faults is under way."),
        ({"baseline": None, "state": "lost"}, "It ended before its first run."),
    ],
)
def test_a_sentence_says_where_it_is(changes: dict[str, Any], text: str) -> None:
    """For every state."""
    assert entities(**changes)["campaign"].text == text


def test_a_run_that_was_interrupted_is_told_and_can_be_looked_at() -> None:
    """It has neither passed nor failed. A record in which it has also ended says which."""
    found = entities(kept=("chaos-3",), state="stopped", interrupted=[CUT, {**CUT, "run": 1}])
    assert set(found) == {"campaign", "of/1", "of/3"}
    assert (found["of/1"].outcome, found["of/3"].outcome, found["of/3"].run) == ("failed", "interrupted", "chaos-3")
    assert (found["of/3"].seconds, found["of/3"].replay) == (2.5, "clusterkit up x.py")
    campaign = found["campaign"]
    assert (campaign.passed, campaign.failed, campaign.running) == (0, 1, 0)
    assert campaign.text == "0 of 1 run passed; 3 were asked for, and 2 interrupted."


@pytest.mark.parametrize("state", ["lost", "stopped", "passed"])
def test_nothing_runs_in_a_campaign_that_is_over(state: str) -> None:
    """Whatever its record says of runs that had begun."""
    found = entities(state=state)
    assert set(found) == {"campaign", "of/1"}
    assert found["campaign"].running == 0


def test_texts_are_printable() -> None:
    """A record may come from anywhere."""
    found = entities(runs=[{**RECORD["runs"][0], "faults": ["kill\x1b[2J x"], "violations": ["a\u202eb"]}])
    assert found["of/1"].faults == ("kill␛[2J x",)
    assert found["of/1"].violations == ("a\ufffdb",)
    assert action_of("  stop ps:0") == "stop"
