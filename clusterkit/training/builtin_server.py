"""The program that workers and ps of a parameter-server job run with `--servers builtin`: it only serves.

The tasks' interpreter runs this file by its path. clusterkit need not be installed there: `main` imports the copy of
clusterkit that contains this file.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Serve until killed, with this file's directory removed from `sys.path`: its modules must not shadow others."""
    here = Path(__file__).resolve().parent
    path = [entry for entry in sys.path if entry != str(here)]
    sys.path[:] = [str(here.parents[1]), *path]
    from clusterkit.training.server import serve

    sys.path[:] = path
    serve()


if __name__ == "__main__":
    main()
