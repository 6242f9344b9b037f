"""Serves: the program of a parameter-server job's workers and ps with `--servers builtin`.

Run by path, by the tasks' interpreter, in which clusterkit need not be installed: the one that it belongs to is found.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Serve until killed. Afterwards `sys.path` is as it was, but for this file's directory: it is no program's."""
    here = Path(__file__).resolve().parent
    path = [entry for entry in sys.path if entry != str(here)]
    sys.path[:] = [str(here.parents[1]), *path]
    from clusterkit.training.server import serve

    sys.path[:] = path
    serve()


if __name__ == "__main__":
    main()
