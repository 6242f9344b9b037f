"""Reads a campaign's verdict on one of its runs."""

from __future__ import annotations

from clusterkit.page.model.entities import CampaignVerdict
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RUN_ID, RunStore
from clusterkit.text.printable import printable, printable_lines
from clusterkit.words.errors import ClusterkitError

MOST = 20  # the maximum number of violations in a verdict


class VerdictReader:
    """Reads a campaign's verdict on a run. `part_of` is the field of the job that names the campaign."""

    def __init__(self, run: RunDirectory, part_of: str | None) -> None:
        kind, _, name = (part_of or "").partition("/")
        known = kind == "campaign" and RUN_ID.fullmatch(name) is not None
        self._file = RunStore(run.path.parent.parent).campaign(name) if known else None
        self._run_id = run.run_id
        self._seen = -1.0
        self.found: CampaignVerdict | None = None

    @property
    def is_due(self) -> bool:
        """Whether the campaign is live and has not judged the run yet."""
        return self._file is not None and self.found is None and self._file.is_live()

    def read(self) -> CampaignVerdict | None:
        """Read the campaign's record if the record has changed. Return the verdict; None before the run is judged."""
        if self._file is None or self.found is not None or (changed := self._file.changed()) == self._seen:
            return self.found
        self._seen = changed
        try:
            record = self._file.record()
        except ClusterkitError:  # the record is damaged or was removed
            return None
        run = next((one for one in record.runs if one.run_id == self._run_id), None)
        if run is not None:
            violations = tuple(printable(text) for text in run.violations[:MOST])
            self.found = CampaignVerdict(self._file.campaign_id, violations, printable_lines(run.replay))
        return self.found
