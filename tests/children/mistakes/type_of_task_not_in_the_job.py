"""Looks for the chief in a cluster without one."""

import json
import os

cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
print(cluster["chief"][0])
