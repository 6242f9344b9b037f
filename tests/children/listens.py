"""Opens its port once a file is there, reports nothing, and ends well once another one is: `listens.py FILE FILE`."""

import json
import os
import socket
import sys
import time
from pathlib import Path

config = json.loads(os.environ["TF_CONFIG"])
kind, index = config["task"]["type"], config["task"]["index"]
print("up", flush=True)
while not Path(sys.argv[1]).exists():
    time.sleep(0.02)
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("0.0.0.0", int(config["cluster"][kind][index].rpartition(":")[2])))
server.listen()
while not Path(sys.argv[2]).exists():
    time.sleep(0.02)
