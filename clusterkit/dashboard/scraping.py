"""What a scrape gets of a run: what is known of it at that moment."""

from __future__ import annotations

import os
import time

from clusterkit.dashboard.live import LiveRun
from clusterkit.dashboard.metrics import Scraped


def scraped(live: LiveRun) -> Scraped:
    """A run as it is now."""
    model = live.model
    run = model.board.get("run")
    ended = None if run is None else run.ended
    now = model.seconds(time.time()) if ended is None else ended
    try:
        journal = os.stat(live.run.journal).st_size
    except OSError:
        journal = 0
    return Scraped(model.board.entities(), now, journal, model.counters, model.ended)
