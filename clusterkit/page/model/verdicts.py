"""Reads what a campaign or an exam says of one of its runs."""

from __future__ import annotations

import time

from clusterkit.page.model.entities import CampaignVerdict
from clusterkit.store.directory import RunDirectory
from clusterkit.store.examined import examined_cells
from clusterkit.store.store import RUN_ID, RunStore
from clusterkit.text.printable import printable, printable_lines
from clusterkit.words.errors import ClusterkitError

MOST = 20  # the maximum number of violations in a verdict
JUDGED_WITHIN = 10.0  # seconds; an exam that has not judged a run so long after its end was ended itself


class VerdictReader:
    """Reads a verdict on a run. `part_of` is the field of the job that names the campaign or the exam."""

    def __init__(self, run: RunDirectory, part_of: str | None) -> None:
        kind, _, name = (part_of or "").partition("/")
        is_valid = RUN_ID.fullmatch(name) is not None
        self._file = RunStore(run.path.parent.parent).campaign(name) if kind == "campaign" and is_valid else None
        self._is_examined = kind == "exam" and is_valid
        self._run = run
        self._seen = -1.0
        self.found: CampaignVerdict | None = None

    @property
    def is_due(self) -> bool:
        """Whether the campaign or the exam is live, as far as known, and has not judged the run yet."""
        if self.found is not None:
            return False
        if self._is_examined:
            return time.time() - self._run.changed() < JUDGED_WITHIN
        return self._file is not None and self._file.is_live()

    def read(self) -> CampaignVerdict | None:
        """Read the record if it has changed. Return the verdict; None before the run is judged."""
        if self._is_examined:
            self._read_exam()
        elif self._file is not None and self.found is None:
            self._read_campaign()
        return self.found

    def _read_campaign(self) -> None:
        assert self._file is not None
        if (changed := self._file.changed()) == self._seen:
            return
        self._seen = changed
        try:
            record = self._file.record()
        except ClusterkitError:  # the record is damaged or was removed
            return
        run = next((one for one in record.runs if one.run_id == self._run.run_id), None)
        if run is not None:
            violations = tuple(printable(text) for text in run.violations[:MOST])
            self.found = CampaignVerdict(self._file.campaign_id, violations, printable_lines(run.replay))

    def _read_exam(self) -> None:
        try:
            changed = self._run.examined.stat().st_mtime
        except OSError:  # the exam has not judged the run yet
            return
        if changed == self._seen:
            return
        self._seen = changed
        cells = examined_cells(self._run)
        if not cells:
            return
        failed = [cell for cell in cells if cell.has_failed]
        told = failed or cells
        violations = tuple(printable(cell.text) for cell in failed[:MOST])
        text = " ".join(printable(cell.text) for cell in told[:MOST])
        replay = printable_lines(told[0].command)
        self.found = CampaignVerdict(printable(cells[0].exam), violations, replay, "exam", text)
