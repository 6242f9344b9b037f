"""The list of campaigns that `ls --campaigns` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clusterkit.store.campaigns import CampaignFile
from clusterkit.views.tables import Column, age, table
from clusterkit.words.campaign import CampaignRecord
from clusterkit.words.errors import ClusterkitError

CAMPAIGNS = (
    Column("CAMPAIGN"), Column("STATE"), Column("AGE", 2), Column("PROGRAM", 3, least=24, is_path=True), Column("RUNS"),
    Column("FAILED"), Column("SEED", 1),
)  # fmt: skip


def campaign_row(file: CampaignFile, now: float) -> dict[str, Any]:
    """Return the row of a campaign; if its record is damaged, only with the facts still known. `now` is wall time."""
    try:
        record: CampaignRecord | None = file.record()
    except ClusterkitError:
        record = None
    return {
        "campaign": file.campaign_id,
        "state": record.state if record else "damaged",
        "age": round(now - (record.begun if record else file.changed()), 3),
        "program": str(record.job.program) if record and record.job else None,
        "runs": len(record.runs) if record else 0,
        "asked_for": record.asked_for if record else 0,
        "failed": len(record.failing) if record else 0,
        "seed": record.seed if record else None,
    }


def campaigns_table(rows: Sequence[Mapping[str, Any]], width: int | None = None) -> str:
    """Return the output of `ls --campaigns`, a table of at most `width` columns."""
    return table(CAMPAIGNS, [_cells(row) for row in rows], width)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    seed = "-" if row["seed"] is None else str(row["seed"])
    runs = f"{row['runs']}/{row['asked_for']}"
    return row["campaign"], row["state"], age(row["age"]), row["program"] or "-", runs, str(row["failed"]), seed
