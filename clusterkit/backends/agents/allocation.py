"""What a run needs of an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from clusterkit.words.events import AllocationEnding, Interrupted


class Allocation(Protocol):
    """The hosts that one run has of its engine, and the agents there. Its methods are for the thread of the loop."""

    @property
    def address(self) -> str:
        """Where the supervisor is to listen, if the user does not say."""

    def start(self, endpoint: str, key: Path) -> None:
        """Start an agent on each host, which connects to the supervisor at `host:port`. Raises ClusterkitError."""

    def failed(self) -> str | None:
        """Return why no further agents will come, as a clause; None as long as some may.

        Called again and again while the run waits for agents. Raises BadJob if a host can't have one as it is.
        """

    def ending(self, signal: int, elsewhere: bool = False) -> AllocationEnding | Interrupted | None:
        """Return whether a signal means the end of the allocation, and that the run continues in another one.

        The signal was sent to the supervisor, or to an agent (`elsewhere`); then Interrupted says that it is meant for
        the whole run, and not for that agent alone. For any thread; may take a while.
        """
        return None

    def again(self) -> str | None:
        """Have the suspended run continue in another allocation, the last thing that is done in this one.

        Return a sentence about why that failed; None if it did not, or if whoever started the run continues it.
        """
        return None

    def stop(self) -> None:
        """End the agents that are left, also if none was started."""
