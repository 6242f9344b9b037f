"""Knows which process imported it: the fork server, or a task that was started cold."""

import os

BORN_IN = os.getpid()
