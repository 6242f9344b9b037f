"""Its process is up, and dies as soon as it may have forked a task; no fork has the timer."""

import signal

signal.setitimer(signal.ITIMER_REAL, 1.0)
