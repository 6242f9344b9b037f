"""Saves by hand: opens, writes, syncs and renames a file in the checkpoint directory: `phased.py SAVES`.

It prints what it finds there first; after each save it reports a step.
"""

import os
import sys
from pathlib import Path

from clusterkit.training import report

directory = Path(os.environ["CLUSTERKIT_CHECKPOINT_DIR"])
directory.mkdir(parents=True, exist_ok=True)
print("found", sorted((path.name, path.stat().st_size) for path in directory.iterdir()))
final = directory / "state"
begin = int(final.read_text()) if final.exists() else 0
for number in range(begin + 1, int(sys.argv[1]) + 1):
    with (directory / "state.tmp").open("w") as file:
        file.write(str(number))
        file.flush()
        os.fsync(file.fileno())
    os.replace(directory / "state.tmp", final)
    report(step=number)
