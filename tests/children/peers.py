"""Listens at its endpoint, connects to all of them, and tells what its network is: `peers.py [FILE]`.

It stays until that file is there; without one, until as many have connected as it has reached."""

import ctypes
import json
import os
import socket
import sys
import time

config = json.loads(os.environ.get("TF_CONFIG", "{}"))
cluster, me = config.get("cluster", {}), config.get("task", {})
server = socket.socket()
server.settimeout(0.01)
if me.get("type") in cluster:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("0.0.0.0", int(cluster[me["type"]][me["index"]].rpartition(":")[2])))
server.listen()
reached = {}
for endpoint in [endpoint for endpoints in cluster.values() for endpoint in endpoints]:
    host, _, port = endpoint.rpartition(":")
    until = time.monotonic() + 10
    while endpoint not in reached and time.monotonic() < until:
        try:
            with socket.create_connection((host, int(port)), timeout=5) as connection:
                reached[endpoint] = connection.getsockname()[0]
        except OSError:
            time.sleep(0.02)
death = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(death))
told = {
    "pid": os.getpid(),
    "reached": reached,
    "devices": [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line],
    "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in ("user", "mnt", "net")},
    "cwd": os.getcwd(),
    "reuses": os.environ.get("TF_GRPC_REUSE_PORT"),
    "dies_with_parent": death.value,
    "ids": [os.getresuid(), os.getresgid()],
    "rights": [line for line in open("/proc/self/status") if line.startswith(("Cap", "NoNewPrivs", "Seccomp:"))],
    "descriptors": sorted(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")),
}
print(json.dumps(told), flush=True)
seen = 0
while not os.path.exists(sys.argv[1]) if len(sys.argv) > 1 else seen < len(reached):
    try:
        connection, _ = server.accept()
        seen += 1
        connection.sendall(b"a task")
    except TimeoutError:
        pass
