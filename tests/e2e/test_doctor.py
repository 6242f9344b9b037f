"""The doctor's trial with real TensorFlow, and what it says of a proxy."""

from __future__ import annotations

import os
import sys

import pytest

from clusterkit.supervisor.trial import try_job
from clusterkit.words.model import Network

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(240)]
PROXY = {"http_proxy": "http://127.0.0.1:9"}  # nobody is there


def test_two_workers_add_up_also_where_a_proxy_is_set_and_exempted() -> None:
    """With what `doctor` says is to be set, a proxy that does not answer is not asked."""
    trial = try_job(sys.executable, {**os.environ, **PROXY, "no_grpc_proxy": "127.0.0.1"}, Network.HOST)
    assert trial.went_well, trial.text


@pytest.mark.soak
def test_tensorflow_goes_through_a_proxy_to_its_own_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a TensorFlow does not any more, `doctor` has to say so: the two workers never meet."""
    monkeypatch.setattr("clusterkit.supervisor.trial.WITHIN", 60.0)
    trial = try_job(sys.executable, {**os.environ, **PROXY}, Network.HOST)
    assert not trial.went_well
    assert "took longer than its timeout" in trial.text
