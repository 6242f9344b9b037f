"""Says how it was started, then fails as often as it is told: `forked.py FAILURES [WAITING_ATTEMPT... DIRECTORY]`.

`warm` is whether another process had imported what it imports. In a waiting attempt it waits until a file
with the attempt's number is in the directory.
"""

import json
import os
import sys
import time
from pathlib import Path

from preloads import good

attempt = int(os.environ["CLUSTERKIT_ATTEMPT"])
descriptors = [name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
print(json.dumps({"warm": good.BORN_IN != os.getpid(), "descriptors": sorted(map(int, descriptors))}), flush=True)
failures, *waits, directory = [*sys.argv[1:], ""] if len(sys.argv) == 2 else sys.argv[1:]
while str(attempt) in waits and not Path(directory, str(attempt)).exists():
    time.sleep(0.01)
# Another code each time: what fails in the same way twice is not started again.
sys.exit(1 + attempt % 2 if attempt <= int(failures) else 0)
