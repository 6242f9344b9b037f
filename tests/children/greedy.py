"""Takes 30 MB of memory for each line that it reads, and says whether it got them: `greedy.py [fork]`.

With `fork`, a child does so from the beginning.
"""

import os
import sys

if sys.argv[1:] == ["fork"] and os.fork():
    os.wait()
    sys.exit()
hoard = []
print("hungry", flush=True)
for _ in sys.stdin:
    try:
        hoard.append(bytearray(30_000_000))
        print("got", flush=True)
    except MemoryError:
        print("MemoryError", flush=True)
