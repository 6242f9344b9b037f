"""Takes for ever to import, in the first server of a run."""

import os
import time
from pathlib import Path

try:
    Path(os.environ["CLUSTERKIT_RUN_DIR"], "waited").touch(exist_ok=False)
except FileExistsError:
    pass
else:
    time.sleep(600)
