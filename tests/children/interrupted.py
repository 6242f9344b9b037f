"""Calls a function of `__main__` in a cluster, waits for its end, and tells how it ended after a KeyboardInterrupt."""

import signal

from clusterkit import Cluster


def forever():
    print("serving", flush=True)
    signal.pause()


with Cluster(forever, workers=2) as cluster:
    try:
        print("waiting", flush=True)
        cluster.wait()
    except KeyboardInterrupt:
        print(cluster.running, cluster.stop().state, flush=True)
