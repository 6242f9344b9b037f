"""What this machine lacks for a job, as it is seen before anything starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.backends.local.resources import preflight
from tests.histories import job


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("new.pcap", None),
        ("old.pcap", None),
        ("directory", "it is a directory."),
        ("gone/x.pcap", "its directory does not exist, or can't be written."),
        ("old.pcap/x", "its directory does not exist, or can't be written."),
        ("x" * 300, "file name too long."),
    ],
)
def test_a_capture_has_to_be_a_file_that_can_be_written(name: str, told: str | None, tmp_path: Path) -> None:
    """The switch opens it, when the run's directory is made already."""
    (tmp_path / "old.pcap").touch()
    (tmp_path / "directory").mkdir()
    path = str(tmp_path / name)
    problems = preflight(replace(job(), pcap=path)).problems
    assert problems == ([] if told is None else [f"--pcap {path} can't be written: {told}"])
