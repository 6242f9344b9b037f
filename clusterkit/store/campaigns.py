"""The record of a campaign: a JSON file that the campaign updates as runs begin and end, and that clients read."""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from clusterkit.store.directory import is_locked, unusable
from clusterkit.system.files import make_private, read_regular, write_whole
from clusterkit.words.campaign import CampaignRecord, campaign_record
from clusterkit.words.errors import ClusterkitError, RunDirectoryError

LARGEST = 1 << 28  # bytes; larger records are not read
RUNNING, LOST = "running", "lost"


class CampaignStillLive(ClusterkitError):
    """A live campaign can't be removed."""


class CampaignFile:
    """The record of one campaign, which need not exist yet. Its writer locks the `.lock` file in the same directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.campaign_id = path.stem
        self.lock_file = path.with_suffix(".lock")
        self._lock: int | None = None

    def make(self, document: dict[str, Any]) -> None:
        """Create the record and lock it for this process. Raises RunDirectoryError if the campaign exists."""
        try:
            make_private(self.path.parent)
            self._lock = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self.path.exists():
                raise FileExistsError
            self.write(document)
        except (FileExistsError, BlockingIOError):
            self._unlock(remove=False)
            raise RunDirectoryError(
                f"A campaign {self.campaign_id} already exists. Choose another --run-id, or omit it; "
                f"or remove that one: clusterkit rm {self.campaign_id}"
            ) from None
        except OSError as error:
            self._unlock()
            raise unusable(self.path, error) from None

    def write(self, document: dict[str, Any]) -> None:
        """Replace the record atomically. Raises OSError."""
        write_whole(self.path, (json.dumps(document) + "\n").encode(), 0o600)

    def close(self) -> None:
        self._unlock()

    def is_live(self) -> bool:
        with suppress(OSError):
            return is_locked(self.lock_file)
        return False

    def read(self) -> dict[str, Any]:
        """Return the record as JSON; the state is `lost` if the campaign was killed. Raises RunDirectoryError."""
        live = self.is_live()  # checked first, so that a campaign that ends now is not reported as lost
        try:
            document = json.loads(read_regular(self.path, LARGEST), parse_constant=lambda _: None)
        except OSError as error:
            raise RunDirectoryError(f"The campaign's record {self.path} can't be read: {error.strerror}.") from None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise self._damaged("it is damaged")
        return {**document, "state": LOST} if document.get("state") == RUNNING and not live else document

    def record(self) -> CampaignRecord:
        try:
            return campaign_record(self.read(), self.campaign_id)
        except ValueError as error:
            raise self._damaged(str(error)) from None

    def changed(self) -> float:
        """Return the wall time at which the record was last written; 0 if unknown."""
        with suppress(OSError):
            return self.path.stat().st_mtime
        return 0.0

    def remove(self) -> None:
        """Remove the record, but not the campaign's runs. Raises CampaignStillLive and ClusterkitError."""
        if self.is_live():
            raise CampaignStillLive(f"The campaign {self.campaign_id} is live. Stop it first, with Ctrl-C.")
        try:
            self.path.unlink()
            self.lock_file.unlink(missing_ok=True)
        except OSError as error:
            raise ClusterkitError(f"Cannot remove the campaign {self.campaign_id}: {error.strerror}.") from None

    def _damaged(self, why: str) -> RunDirectoryError:
        return RunDirectoryError(f"{self.path} can't be read as the record of a campaign: {why}.")

    def _unlock(self, remove: bool = True) -> None:
        if self._lock is None:
            return
        if remove:
            self.lock_file.unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = None
