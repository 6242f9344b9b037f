"""Reads TF_CONFIG, which a job with one worker has not got."""

import json
import os

config = json.loads(os.environ["TF_CONFIG"])
