"""Makes a virtual network with a disk that can be full, as whoever runs it, and tells what two guests saw of it."""

import errno
import json
import subprocess
import sys
from pathlib import Path

from clusterkit.network.virtual import NetworkPlan, VirtualNetwork, why_not
from clusterkit.words.model import Task

GUEST = str(Path(__file__).parent / "guest.py")
a, b = Task.parse("worker:0"), Task.parse("worker:1")
place = Path(sys.argv[1])
(place / "data").mkdir()
(place / "data" / "old").write_text("old")

reason = why_not(True, True)
if reason is not None:
    print(json.dumps({"why_not": reason}))
    sys.exit()
network = VirtualNetwork(NetworkPlan([a, b], 1, disk=place / "data"), place / "log", {})


def guest(task):
    fds = network.namespaces(task)
    words = [sys.executable, GUEST, ",".join(map(str, fds))]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=fds, text=True)


def tell(process, code):
    process.stdin.write(json.dumps(code) + "\n")
    process.stdin.flush()


def told(process):
    return json.loads(process.stdout.readline())


server, client = guest(a), guest(b)
tell(server, "import socket; s = socket.create_server(('0.0.0.0', 2222))")
told(server)
tell(server, "c, _ = s.accept(); c.sendall(c.recv(100) + b' pong')")
tell(client, f"import socket; c = socket.create_connection(('{network.addresses[a]}', 2222), 10)")
told(client)
tell(client, "c.sendall(b'ping'); result = c.recv(100).decode()")
seen = {"ping": told(client)["result"], "served": told(server), "namespaces": len(network.namespaces(a))}
for name, change in (("full", lambda: network.fill_disk(1)), ("healed", lambda: network.heal(1))):
    change()
    tell(client, f"open({str(place / 'data' / name)!r}, 'w').write('x')")
    number = told(client).get("errno")
    seen[name] = None if number is None else errno.errorcode[number]
tell(client, f"import os; result = [os.getuid(), sorted(os.listdir({str(place / 'data')!r}))]")
seen["client"] = told(client)["result"]
for process in (server, client):
    process.stdin.close()
    process.wait(10)
network.stop()
print(json.dumps(seen))
