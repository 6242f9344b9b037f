"""Follows logs: what is new, as it comes; in a flood only the newest part of it, and how much was left out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from clusterkit.dashboard.logbook import LogBook, Wanted
from clusterkit.dashboard.searching import TooSlow
from clusterkit.dashboard.streams import HEARTBEAT, message

LOOK_EVERY = 0.1  # seconds
MOST_PER_LOOK = 20_000  # characters; ten times that a second


async def log_messages(logs: LogBook, wanted: Wanted, cursor: str) -> AsyncIterator[str]:
    """The lines after a cursor, until nobody writes any more, or searching them takes too long."""
    yield "retry: 1000\n\n"
    clock = asyncio.get_running_loop().time
    quiet_since = clock()
    while True:
        began, over = clock(), logs.over
        try:
            page = await asyncio.to_thread(logs.following, wanted, cursor, MOST_PER_LOOK)
        except TooSlow:
            yield message("{}", cursor, "over")
            return
        cursor = page["next"]
        if page["lines"] or page["skipped"]:
            quiet_since = clock()
            yield message(json.dumps(page), cursor)
        elif over and page["done"]:
            yield message("{}", cursor, "over")
            return
        elif clock() - quiet_since > HEARTBEAT:
            quiet_since = clock()
            yield ": \n\n"
        await asyncio.sleep(max(0.0, began + LOOK_EVERY - clock()))
