"""Strays: processes of runs whose supervisor and guardian are both gone, found by their environment."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

from clusterkit.client.rundir import is_live, runs_dir
from clusterkit.system import procfs
from clusterkit.system.sweep import kill_until_gone


def find_strays(everywhere: bool = False) -> dict[str, list[int]]:
    """Run id to pids, for this user's processes of runs that no living supervisor holds.

    Of the runs in this state directory; `everywhere`, of those in any.
    A run whose directory was removed can't be told from a live one, since the lock went with it: it is left alone.
    """
    found: dict[str, list[int]] = defaultdict(list)
    for pid in procfs.all_pids():
        env = procfs.environ(pid)
        run_id, directory = env.get("CLUSTERKIT_RUN_ID"), env.get("CLUSTERKIT_RUN_DIR")
        if pid == os.getpid() or not run_id or not directory or procfs.is_zombie(pid):
            continue
        if not everywhere and Path(directory).parent != runs_dir():
            continue
        if Path(directory, "lock").exists() and not is_live(Path(directory)):
            found[run_id].append(pid)
    return dict(found)


def reap_strays(everywhere: bool = False) -> dict[str, int]:
    """Kill strays until there are none. Returns how many were killed, by run id. Raises WillNotDie."""
    counts = {run_id: len(pids) for run_id, pids in find_strays(everywhere).items()}
    if counts:
        kill_until_gone(lambda: [pid for pids in find_strays(everywhere).values() for pid in pids])
    return counts
