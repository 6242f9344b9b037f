"""The doctor's small job with real TensorFlow."""

from __future__ import annotations

import os
import sys

import pytest

from clusterkit.doctor.diagnosis import Rating
from clusterkit.doctor.facts import run_job
from clusterkit.words.job import Network

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(240)]
PROXY = {"http_proxy": "http://127.0.0.1:9"}  # nobody is there


@pytest.mark.long
def test_two_workers_add_up_also_where_a_proxy_is_set() -> None:
    """gRPC would ask it for its way to the other worker; tasks are told to reach each other without one."""
    grade, text = run_job(sys.executable, {**os.environ, **PROXY}, Network.HOST)
    assert grade is Rating.FINE, text
