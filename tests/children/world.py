"""Tells what it sees of the world, and which process had imported TensorFlow: `world.py [SECONDS|FILE [CODE]]`.

It stays for some seconds, or until a file is there."""

import json
import os
import resource
import signal
import sys
import time

import tensorflow

umask = os.umask(0)
os.umask(umask)
world = {
    "imported_by": tensorflow.BORN_IN,
    "pid": os.getpid(),
    "world": {
        "umask": umask,
        "limits": [resource.getrlimit(number) for number in range(16)],
        "cwd": os.getcwd(),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "cores": sorted(os.sched_getaffinity(0)),
        "ignored": [number for number in range(1, 65) if signal.getsignal(number) == signal.SIG_IGN],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "stdin": os.readlink("/proc/self/fd/0"),
        "descriptors": len([n for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")]),
        "leads": os.getsid(0) == os.getpid() == os.getpgrp(),
        "env": {name: value for name, value in os.environ.items() if "CLUSTERKIT" not in name and name != "TF_CONFIG"},
        "oom": open("/proc/self/oom_score_adj").read(),
        "status": [
            line
            for line in open("/proc/self/status")
            if line.startswith(("Uid", "Gid", "Groups", "Cap", "NoNewPrivs", "Seccomp:", "Sig", "Shd"))
            and not line.startswith("SigQ")  # counts what others of the user have queued
        ],
    },
}
print(json.dumps(world), flush=True)
until = sys.argv[1] if len(sys.argv) > 1 else "0"
while "/" in until and not os.path.exists(until):
    time.sleep(0.01)
if "/" not in until:
    time.sleep(float(until))
sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
