"""Writes a line of spaces, which some regular expressions can divide in more ways than there is time for; waits."""

import time

print(" " * 60, flush=True)
time.sleep(600)
