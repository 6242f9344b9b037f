"""The least that many tasks cost: forks, execs, and at SIGINT kills and waits for all of them.

python many_bare.py COUNT COMMAND [ARGS...]
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """See the module's docstring."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pids = []
    for _ in range(int(sys.argv[1])):
        pid = os.fork()
        if pid == 0:
            os.execvp(sys.argv[2], sys.argv[2:])
        pids.append(pid)
    signal.sigwait({signal.SIGINT})
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    for pid in pids:
        os.waitpid(pid, 0)
    os._exit(0)


if __name__ == "__main__":
    main()
