"""Its process is up, and dies at once; no fork has the timer."""

import signal

signal.setitimer(signal.ITIMER_REAL, 0.3)
