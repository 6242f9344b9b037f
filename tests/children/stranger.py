"""Becomes another user, then asks a warm server to end: `stranger.py SOCKET`."""

import os
import socket
import sys

os.setgroups([])
os.setgid(65534)
os.setuid(65534)
client = socket.socket(socket.AF_UNIX)
client.settimeout(10)
client.connect(sys.argv[1])
print("connected", flush=True)
try:
    client.sendall(b'\0\0\0\x0e{"do": "stop"}')
    answer = client.recv(100)
except (BrokenPipeError, ConnectionResetError):
    answer = b""
print(answer or "no answer")
