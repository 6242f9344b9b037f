"""Writes a megabyte a second, for so many seconds."""

import os
import sys
import time

line = b"<b>" + b"x" * 96 + b"\n"
for _ in range(int(sys.argv[1]) * 10):
    os.write(1, line * 1000)
    time.sleep(0.1)
