"""Moves itself into a control group and takes more memory than that allows: `hungry.py GROUP`."""

import os
import sys
from pathlib import Path

Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
print("hungry", flush=True)
hoard = []
while True:
    hoard.append(os.urandom(1 << 20))
