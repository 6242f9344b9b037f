"""Reaches the other tasks through a proxy that refuses to pass on their connections."""

import os
import socketserver
import threading


class Refuse(socketserver.BaseRequestHandler):
    """A proxy that answers every CONNECT with 403."""

    def handle(self) -> None:
        """Read the request, and refuse it."""
        self.request.recv(4096)
        self.request.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")


proxy = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refuse)
threading.Thread(target=proxy.serve_forever, daemon=True).start()
os.environ["http_proxy"] = f"http://127.0.0.1:{proxy.server_address[1]}"
os.environ["no_proxy"] = ""

import tensorflow as tf  # noqa: E402 - it reads the environment when it connects

print(tf.profiler.experimental.client.monitor("grpc://worker-1.example:8466", 100))
