"""The program that the workers and ps of a parameter-server job run with `--servers builtin`; it only runs a server.

The tasks' interpreter runs this file by path, and need not have clusterkit installed: `main` imports the copy of
clusterkit that contains this file.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Serve until killed. Removes this file's directory from `sys.path`, since its files could shadow modules."""
    here = Path(__file__).resolve().parent
    path = [entry for entry in sys.path if entry != str(here)]
    sys.path[:] = [str(here.parents[1]), *path]
    from clusterkit.training.server import serve

    sys.path[:] = path
    serve()


if __name__ == "__main__":
    main()
