"""Takes the role of any task, and writes so many bytes a second to its log: `pouring.py BYTES [REPORTS]`.

The chief reports REPORTS steps a second [10]; the others serve until they are ended.
"""

from __future__ import annotations

import json
import os
import sys
import time

LINE = 125  # bytes, with the line end
EVERY = 0.02  # seconds


def main() -> None:
    """See the module's docstring."""
    rate, reports = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    task, attempt = os.environ["CLUSTERKIT_TASK"], int(os.environ["CLUSTERKIT_ATTEMPT"])
    progress = os.open(os.environ["CLUSTERKIT_PROGRESS"], os.O_WRONLY | os.O_NONBLOCK)
    os.write(progress, json.dumps({"attempt": attempt, "kind": "ready"}).encode() + b"\n")
    began, lines, step = time.monotonic(), 0, 0
    while True:
        passed = time.monotonic() - began
        due = int(passed * rate) // LINE
        lines = max(lines, due - rate // LINE)  # after a stop it goes on at its rate
        text = b"".join(f"{task} {number:010d} ".encode().ljust(LINE - 1, b".") + b"\n" for number in range(lines, due))
        os.write(1, text)
        lines = due
        if task == "chief:0" and passed * reports > step:
            step += 1
            message = {"attempt": attempt, "kind": "progress", "step": step, "metrics": {"loss": 1 / step}}
            os.write(progress, json.dumps(message).encode() + b"\n")
        time.sleep(EVERY)


if __name__ == "__main__":
    main()
