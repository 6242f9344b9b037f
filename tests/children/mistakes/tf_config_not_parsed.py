"""Takes TF_CONFIG for a dictionary."""

import os

index = os.environ["TF_CONFIG"]["task"]["index"]
