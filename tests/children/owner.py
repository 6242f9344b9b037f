"""Starts a cluster of `owner.py PROGRAM ARG` in a thread that ends; forks; prints run directory and pid; both wait."""

import os
import signal
import sys
import threading

from clusterkit import Cluster

found = []


def begin():
    found.append(Cluster(sys.argv[1], workers=2, args=sys.argv[2:], grace_period=120))


thread = threading.Thread(target=begin)
thread.start()
thread.join()
there, told = os.pipe()
if pid := os.fork():
    os.read(there, 1)  # the fork has let go of what it has inherited
    print(found[0].directory, pid, flush=True)
else:
    os.write(told, b"!")
signal.pause()
