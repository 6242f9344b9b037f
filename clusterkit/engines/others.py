"""Agents that somebody else starts: by hand, or by Kubernetes from the manifests."""

from __future__ import annotations

from pathlib import Path


class Others:
    """They are waited for, as long as a start may take."""

    address = "0.0.0.0"

    def start(self, endpoint: str, key: Path) -> None:
        """Nothing is started here."""

    def failed(self) -> str | None:
        """Nobody here knows."""
        return None

    def stop(self) -> None:
        """They end when they are told that the run is over, or do not hear of it any more."""
