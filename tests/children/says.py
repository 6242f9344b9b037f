"""Reports steps, and writes what no page may take for markup or obey: says.py STEPS [wait].

Each step is a numbered line, too. With `wait`, the last step waits for the file `go` in the run directory.
"""

import json
import os
import sys
import time
from pathlib import Path

HOSTILE = (
    "<b onclick=alert(1)>bold</b><img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>",
    "\x1b[31mred\x1b[0m plain \x1b[1;38;5;208mbright\x1b[m \x1b]0;pwned\x07 title \x1b[2J cleared \u202egnp.exe",
    "&lt;entity&gt; </pre></body> ${document.title='pwned'} {{7*7}} javascript:alert(1)",
)
progress = os.open(os.environ["CLUSTERKIT_PROGRESS"], os.O_WRONLY | os.O_NONBLOCK)
attempt = int(os.environ["CLUSTERKIT_ATTEMPT"])
for line in HOSTILE:
    print(line, flush=True)
go = Path(os.environ["CLUSTERKIT_RUN_DIR"], "go")
steps = int(sys.argv[1])
for step in range(1, steps + 1):
    while "wait" in sys.argv and step == steps and not go.exists():
        time.sleep(0.02)
    report = {"kind": "progress", "attempt": attempt, "step": step, "metrics": {"loss": 2.0 / step, "<i>": 1.0}}
    os.write(progress, json.dumps(report).encode() + b"\n")
    print(f"line {step}.", flush=True)
    time.sleep(0.05)
