"""Records of campaigns: written all at once, locked while the campaign is live, and hostile until they are read."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from clusterkit.store.campaigns import CampaignFile, CampaignStillLive
from clusterkit.store.store import NoSuchRun, RunStore
from clusterkit.views.listing import campaign_row, campaigns_table
from clusterkit.words.campaign import campaign_record
from clusterkit.words.errors import RunDirectoryError

RUN = {
    "run": 1, "run_id": "chaos-1", "directory": "/runs/chaos-1", "seed": 7, "faults": ["kill chief:0 @ step=3"],
    "injected": ["kill chief:0 @ step=3"], "duration": 2.5, "violations": ["The job failed: so."],
    "replay": "clusterkit up x.py",
    "shrunk": {"faults": ["kill chief:0"], "violations": ["V"], "runs": 3, "replay": "r"},
    "injections": [{"fault": "kill chief:0", "action": "kill", "types": ["chief"], "recovered": True, "seconds": 1.5}],
    "result": {"state": "failed", "reason": "so", "recoveries": [{"at": 1.0, "ended": 2.5, "lost": 4, "faults": [1]}]},
}  # fmt: skip
RECORD: dict[str, Any] = {
    "format": 1, "campaign": "chaos", "state": "running", "begun": 1000.0, "ended": None, "seed": 5, "asked_for": 3,
    "used": ["kill"], "clusterkit": "1", "command": "clusterkit chaos x.py", "cwd": "/", "rate": 2.0, "parallel": 1,
    "baseline": {"duration": 1.0, "last_step": 9, "checkpoints": [5], "metrics": {"loss": 0.5}},
    "runs": [RUN], "running": [{"run": 2, "run_id": "chaos-2", "seed": 8, "faults": ["stop ps:0"]}],
    "actions": [{"action": "kill", "injected": 1, "recovered": 1, "restarts": 1, "p50": 1.5, "p90": 1.5, "p100": 1.5}],
    "recovery_times": [], "future": {"of": "a newer version"},
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> CampaignFile:
    """Of a campaign that is not there yet."""
    return RunStore(tmp_path / "home").campaign("chaos")


def test_a_record_is_live_while_its_campaign_is(file: CampaignFile) -> None:
    """Also for a client; it is private, and nothing but the record is left at the end."""
    file.make(RECORD)
    seen = CampaignFile(file.path)
    assert seen.is_live()
    assert seen.read()["state"] == "running"
    assert (file.path.stat().st_mode & 0o777, file.path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    with pytest.raises(CampaignStillLive, match="live"):
        seen.remove()
    file.write({**RECORD, "state": "passed"})
    file.close()
    assert not seen.is_live()
    assert [path.name for path in file.path.parent.iterdir()] == ["chaos.json"]
    assert seen.record().state == "passed"
    seen.remove()
    assert list(file.path.parent.iterdir()) == []


def test_a_campaign_whose_process_was_killed_is_lost(file: CampaignFile) -> None:
    """Its lock is free, and its record says that it runs."""
    file.make(RECORD)
    lock = file.lock_file.read_bytes()
    file.close()
    file.lock_file.write_bytes(lock)
    assert file.record().state == "lost"


def test_a_campaign_is_made_once(file: CampaignFile) -> None:
    """Whether the first one is live or over; the second does no harm to it."""
    file.make(RECORD)
    for _ in range(2):
        with pytest.raises(RunDirectoryError, match="A campaign chaos already exists"):
            CampaignFile(file.path).make({})
        assert file.is_live()
    file.close()
    with pytest.raises(RunDirectoryError, match="already exists"):
        CampaignFile(file.path).make({})
    assert file.record().seed == 5


def test_a_record_is_read_as_it_was_written(file: CampaignFile) -> None:
    """With what a newer version adds, which is ignored."""
    file.make(RECORD)
    record = file.record()
    file.close()
    assert record.runs[0].result.recoveries[0].lost == 4
    assert record.runs[0].shrunk is not None
    assert [run.run for run in record.failing] == [1]
    assert record.running[0].faults == ("stop ps:0",)
    assert campaign_row(file, 1060.0) | {"age": 60.0} == {
        "campaign": "chaos", "state": "lost", "age": 60.0, "program": None, "runs": 1, "asked_for": 3, "failed": 1,
        "seed": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", "[" * 100_000, '{"a": ' * 9999, "9" * 9999, '{"campaign": 1}']
)
def test_a_damaged_record_is_one_error(file: CampaignFile, text: str) -> None:
    """And it is listed as damaged."""
    file.path.parent.mkdir(parents=True)
    file.path.write_text(text)
    with pytest.raises(RunDirectoryError, match=r"can't be read as the record of a campaign: it is damaged"):
        file.record()
    assert "damaged" in campaigns_table([campaign_row(file, 0.0)])


def test_random_records_are_read_or_refused() -> None:
    """Bytes changed at random, and values replaced by such of other types: never anything but a ValueError."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice, text, refused = random.Random(seed), json.dumps(RECORD), 0
    strange: list[Any] = [None, True, -1, 1e400, float("nan"), 10**400, "\ud800", "x", [], {}, [[]], {"": {}}]
    for _ in range(3000):
        damaged = list(text)
        if dice.random() < 0.5:
            for _ in range(dice.randint(1, 4)):
                damaged[dice.randrange(len(damaged))] = chr(dice.randrange(0x110000))
            try:
                document = json.loads("".join(damaged))
            except (ValueError, RecursionError):
                continue
        else:
            document = json.loads(text)
            _replace(document, dice, dice.choice(strange))
        try:
            campaign_record(document, "chaos")
        except ValueError:
            refused += 1
    assert refused > 100


def _replace(value: Any, dice: random.Random, by: Any) -> None:
    """Put something strange in a random place."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = dice.choice(keys)
        if isinstance(value[key], dict | list) and value[key] and dice.random() < 0.7:
            value = value[key]
            continue
        value[key] = by
        return


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("chaos-1", "chaos-1"), ("chaos-10", "chaos-10"), ("chaos-10-3", "chaos-10-3"),
        ("chaos-10-b", "chaos-10-baseline"), ("min", "mine"), ("chaos-10-3x", None),
        ("chaos", None), ("c", None), ("z", None),
    ],
)  # fmt: skip
def test_runs_and_campaigns_are_found_by_the_beginning(tmp_path: Path, prefix: str, found: str | None) -> None:
    """The runs of a campaign do not make its own id ambiguous."""
    store = RunStore(tmp_path)
    for name in ("chaos-10-3", "chaos-10-baseline", "mine"):
        store.run(name).path.mkdir(parents=True)
    for name in ("chaos-1", "chaos-10"):
        file = store.campaign(name)
        file.make({})
        file.close()
    if found is None:
        with pytest.raises(NoSuchRun):
            store.find_any(prefix)
    else:
        assert store.find_any(prefix).path.stem == found
