"""Starts a cluster of a program in a thread that ends; forks; prints run directory and fork's pid; both wait."""

import os
import signal
import sys
import threading

from clusterkit import Cluster

found = []
thread = threading.Thread(target=lambda: found.append(Cluster(sys.argv[1], workers=2, args=["--steps", "10000"])))
thread.start()
thread.join()
if pid := os.fork():
    print(found[0].directory, pid, flush=True)
signal.pause()
