"""The memory of this machine."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

MEMORY = Path("/proc/meminfo")
_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB$", re.MULTILINE)


def available_memory() -> int | None:
    """Return how many bytes of memory programs can get without swapping; None if that is unknown."""
    with suppress(OSError, ValueError):
        found = _AVAILABLE.search(MEMORY.read_text())
        return None if found is None else int(found[1]) * 1024
    return None
