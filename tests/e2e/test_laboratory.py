"""The facts' laboratory: which of TensorFlow's lines are about a task that fails or does not answer."""

from __future__ import annotations

import pytest

from tests.e2e.facts import Seen, is_complaint

LOG = "2026-11-21 17:27:28.000000: "
RENDEZVOUS = "I tensorflow/core/framework/local_rendezvous.cc:407] Local rendezvous is aborting with status: "
FAILED = "ERROR:tensorflow:Worker /job:worker/replica:0/task:1 failed with UnavailableError()"
UNHEARD = "RPC: /tensorflow.CoordinationService/Heartbeat failed: Deadline Exceeded"


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        (LOG + RENDEZVOUS + "ABORTED: Cleanup", False),
        (LOG + RENDEZVOUS + "OUT_OF_RANGE: End of sequence", False),
        (LOG + "I tensorflow/core/platform/cpu_feature_guard.cc:227] This TensorFlow binary is optimized", False),
        (LOG + RENDEZVOUS + "UNAVAILABLE: Socket closed", True),
        (LOG + "E external/xla/coordination_service_agent.cc:363] " + UNHEARD, True),
        (LOG + "W tasks are unhealthy (stopped sending heartbeats)", True),
        (FAILED, True),
        ("Traceback (most recent call last):", True),
    ],
)
def test_a_complaint_is_about_a_task(line: str, is_one: bool) -> None:
    """TensorFlow writes of its own housekeeping too, now and then, which is no fact of what was broken."""
    assert is_complaint(line) is is_one


def test_what_was_seen_names_who_complains() -> None:
    """A task whose lines are all housekeeping is not among them."""
    seen = Seen(0.0, said={"worker:0": RENDEZVOUS + "ABORTED: Cleanup", "chief:0": f"step\n{FAILED}"})
    assert seen.complaints == {"chief:0": [FAILED]}
