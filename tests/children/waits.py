"""Runs a program in which one task waits: `waits.py TASK STEP:EVENT[,STEP:EVENT...] PROGRAM ARGUMENT...`.

In its first attempt TASK goes on after a step that it has reported only once the run's journal has that EVENT, such as
`Shrunk`. `end` never comes: whoever waits for it is killed there.
"""

import os
import runpy
import sys
import time
from pathlib import Path

from clusterkit.training import progress

who, told, program, *arguments = sys.argv[1:]
waits = [(int(step), event) for step, event in (one.split(":") for one in told.split(","))]
journal = Path(os.environ["CLUSTERKIT_RUN_DIR"], "journal.jsonl")


def wait(step):
    while waits and step >= waits[0][0]:
        _, event = waits.pop(0)
        while event == "end" or f'"event": "{event}"' not in journal.read_text():
            time.sleep(0.02)


if (os.environ["CLUSTERKIT_TASK"], os.environ["CLUSTERKIT_ATTEMPT"]) == (who, "1"):
    progress.on_report(wait)
sys.argv = [program, *arguments]
sys.path.insert(0, str(Path(program).parent))
runpy.run_path(program, run_name="__main__")
