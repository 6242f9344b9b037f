"""worker:1 raises and takes its time to be gone; worker:0 dies of that first, as TensorFlow's survivors do."""

import os
import time
from pathlib import Path

raised = Path(os.environ["CLUSTERKIT_CHECKPOINT_DIR"], "raised")
journal = Path(os.environ["CLUSTERKIT_RUN_DIR"], "journal.jsonl")


class UnavailableError(Exception):
    """As TensorFlow calls it."""


if os.environ["CLUSTERKIT_TASK"] == "worker:0":
    while not raised.exists():
        time.sleep(0.01)
    raise UnavailableError("Socket closed")
try:
    raise ValueError("a planted fault")
finally:
    raised.touch()
    while '"event": "Exited"' not in journal.read_text():
        time.sleep(0.01)
