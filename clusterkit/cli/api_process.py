"""A `clusterkit up` that a Python process starts, which reads its request from standard input."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

from clusterkit.cli import run
from clusterkit.warm.warm_client import ApiRequest


def main() -> None:
    """Run the job, quietly unless the command line says otherwise.

    Options in the request override options in the environment.
    """
    asked: ApiRequest = pickle.load(sys.stdin.buffer)
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    run(sys.argv[1:] or ["up", "--quiet", "--no-color"], asked)
