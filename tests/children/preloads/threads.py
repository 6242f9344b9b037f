"""Starts a thread, which no fork has."""

import threading
import time

threading.Thread(target=time.sleep, args=(60,), name="a pool of its own", daemon=True).start()
