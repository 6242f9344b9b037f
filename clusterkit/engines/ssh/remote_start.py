"""Runs on a host, through `python3 -c`: reports clusterkit's version, and becomes the agent when the key arrives."""

import os
import sys

sys.path[:] = [path for path in sys.path if path]  # "" is the working directory; an old Python has no option -P
mark, host = sys.argv[1:]
try:
    from clusterkit import __version__ as version
except ImportError:
    version = "none"
peer = os.environ.get("SSH_CONNECTION", "?").split()[0]  # the supervisor's address as seen by this host
os.write(1, ("\n%s %s %s\n" % (mark, version, peer)).encode())  # noqa: UP031  so that an old Python can run this
endpoint, _, key = sys.stdin.buffer.read().partition(b"\n")
if key:
    memory = os.memfd_create("key")  # in memory, so that the key is never on a disk
    os.fchmod(memory, 0o600)
    os.write(memory, key)
    os.dup2(memory, 0)
    words = ["--connect", endpoint.decode(), "--key", "/proc/self/fd/0", "--host", host]
    os.execv(sys.executable, [sys.executable, "-P", "-m", "clusterkit", "agent", *words])
