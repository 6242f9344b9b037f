"""What a run needs of an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from clusterkit.words.events import AllocationEnding, Interrupted


class Engine(Protocol):
    """Starts the agents of one run on hosts that it owns. Its methods are for the thread of the loop."""

    @property
    def address(self) -> str:
        """Where the supervisor is to listen, if the user does not say."""

    def start(self, endpoint: str, key: Path) -> None:
        """Start an agent on each host, which connects to the supervisor at `host:port`. Raises ClusterkitError."""

    def failed(self) -> str | None:
        """Why there will be no more agents than there are, as a clause; None as long as some may come."""

    def ending(self, signal: int, elsewhere: bool = False) -> AllocationEnding | Interrupted | None:
        """Whether a signal means the end of the allocation, and that the run is to continue in another one.

        The signal was sent to the supervisor, or to an agent (`elsewhere`); then Interrupted says that it is meant for
        the whole run, and not for that agent alone. For any thread; may take a while.
        """

    def again(self) -> str | None:
        """Have the suspended run continue in another allocation, the last thing that is done in this one.

        Returns a sentence about why that can't be had; None if it can, or if somebody else does it.
        """

    def stop(self) -> None:
        """End the agents that are left, also if none was started."""
