"""A dashboard on a port and with a token that a test chooses, so that it can be started again in the same place.

python -m tests.page.serving HOME PORT TOKEN [control]
"""

from __future__ import annotations

import sys
from pathlib import Path

from clusterkit.page import safety, serve
from clusterkit.store.store import RunStore


def main() -> None:
    """Serve until a signal."""
    home, port, token, *control = sys.argv[1:]
    vars(safety)["new_token"] = lambda: token
    server = serve.PageServer(RunStore(Path(home)), bool(control), int(port))
    print(server.address(), flush=True)
    server.run()


if __name__ == "__main__":
    main()
