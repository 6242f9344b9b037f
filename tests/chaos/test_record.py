"""What a campaign's record holds of its job: nothing that is hidden elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterkit.chaos.runner import CampaignSettings, RecordWriter
from clusterkit.chaos.trial import JobTemplate
from clusterkit.job.options import JobOptions
from clusterkit.store.campaigns import CampaignFile
from clusterkit.words.faults import FaultAction
from clusterkit.words.model import ProgramKind
from tests.histories import build_job

pytestmark = pytest.mark.process  # it writes a file


def test_no_secret_is_in_the_record_or_in_a_command_to_repeat_it(tmp_path: Path) -> None:
    """The runs themselves are started with all of it."""
    options: JobOptions = {
        "program": "train.py", "args": ["--db", "postgres://me:hush@db"], "env": {"DB_PASS": "hush", "TF_LEVEL": "3"},
    }  # fmt: skip
    asked = JobTemplate(build_job(dict(options), ProgramKind.SCRIPT), options)
    file = CampaignFile(tmp_path / "campaign.json")
    RecordWriter.make(file, asked, CampaignSettings("mine", 1, 7, (FaultAction.KILL,), 1.0, 1, 0), pytest.fail).close(
        "passed"
    )
    assert "hush" not in file.path.read_text()
    assert "TF_LEVEL=3" in json.loads(file.path.read_text())["command"]
    assert asked.command() == "clusterkit up --env=DB_PASS --env=TF_LEVEL=3 train.py --db 'postgres://***@db'"
    given = asked.given_options().options
    assert (given["args"][-1], given["env"]["DB_PASS"]) == ("postgres://me:hush@db", "hush")
