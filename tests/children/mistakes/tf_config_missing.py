"""Reads TF_CONFIG in a process that has not got it."""

import json
import os
import subprocess
import sys

if len(sys.argv) == 1:
    clean = {"PATH": os.environ["PATH"]}
    sys.exit(subprocess.run([sys.executable, __file__, "again"], env=clean, check=False).returncode)
config = json.loads(os.environ["TF_CONFIG"])
