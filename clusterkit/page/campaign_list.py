"""The campaigns of a state directory. The page polls them, so a record is read again only when it has changed."""

from __future__ import annotations

import threading
from contextlib import suppress

from clusterkit.page.campaigns import CampaignEntity, campaign_entities, campaign_entity
from clusterkit.page.entities import Entity
from clusterkit.store.campaigns import CampaignFile
from clusterkit.store.store import RUN_ID, NoSuchRun, RunStore
from clusterkit.words.errors import ClusterkitError

MOST = 1000  # campaigns in the list, the newest


class CampaignList:
    """Lists campaigns. Its methods read files: call them in a thread."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._known: dict[str, tuple[tuple[float, bool], CampaignEntity]] = {}  # with the file's time and liveness
        self._lock = threading.Lock()

    def rows(self) -> dict[str, CampaignEntity]:
        """Every campaign by its key. Campaigns with damaged records are left out."""
        with self._lock:
            known, self._known = self._known, {}
            for file in sorted(self._store.campaigns(), key=lambda file: file.changed())[-MOST:]:
                now = (file.changed(), file.is_live())
                before = known.get(file.campaign_id)
                with suppress(ClusterkitError):
                    entity = before[1] if before and before[0] == now else campaign_entity(file.record())
                    self._known[file.campaign_id] = now, entity
            return {f"campaign/{name}": entity for name, (_, entity) in self._known.items()}

    def entities(self, campaign_id: str) -> dict[str, Entity]:
        """Everything about the campaign with exactly that id. Raises NoSuchRun and RunDirectoryError."""
        file = self._file(campaign_id)
        record = file.record()
        begun = [run.run_id for runs in (record.runs, record.interrupted, record.running) for run in runs]
        return campaign_entities(record, {name for name in begun if self._is_there(name)})

    def _is_there(self, run_id: str) -> bool:
        return RUN_ID.fullmatch(run_id) is not None and self._store.run(run_id).path.is_dir()

    def _file(self, campaign_id: str) -> CampaignFile:
        if RUN_ID.fullmatch(campaign_id) and (file := self._store.campaign(campaign_id)).path.is_file():
            return file
        raise NoSuchRun("There is no such campaign. It may have been removed.")
