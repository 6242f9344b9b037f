"""worker:1 raises and takes its time to be gone; worker:0 dies of that first, as TensorFlow's survivors do."""

import os
import time


class UnavailableError(Exception):
    """As TensorFlow calls it."""


if os.environ["CLUSTERKIT_TASK"] == "worker:0":
    time.sleep(0.3)
    raise UnavailableError("Socket closed")
try:
    raise ValueError("a planted fault")
finally:
    time.sleep(0.6)
