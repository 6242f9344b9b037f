"""Says what it has of this machine; the first attempt of the named task fails: `shared.py [TASK]`."""

import json
import os
import sys

from preloads import good

cores = {tuple(sorted(os.sched_getaffinity(int(thread)))) for thread in os.listdir("/proc/self/task")}
variables = {name: os.environ[name] for name in os.environ if name.startswith(("OMP_", "TF_", "CUDA_"))}
told = {"warm": good.BORN_IN != os.getpid(), "cores": sorted(cores), "variables": variables}
print(json.dumps(told), flush=True)
sys.exit(sys.argv[1:] == [os.environ["CLUSTERKIT_TASK"]] and os.environ["CLUSTERKIT_ATTEMPT"] == "1")
