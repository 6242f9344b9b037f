"""Binds its port as TensorFlow does, says that it is ready, and ends well once a file is there: `together.py FILE`."""

import json
import os
import socket
import sys
import time
from pathlib import Path

config = json.loads(os.environ["TF_CONFIG"])
kind, index = config["task"]["type"], config["task"]["index"]
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind(("0.0.0.0", int(config["cluster"][kind][index].rpartition(":")[2])))
server.listen()
ready = json.dumps({"attempt": int(os.environ["CLUSTERKIT_ATTEMPT"]), "kind": "ready"})
Path(os.environ["CLUSTERKIT_PROGRESS"]).write_text(ready + "\n")
while not Path(sys.argv[1]).exists():
    time.sleep(0.1)
