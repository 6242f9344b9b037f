"""Tries every TCP port of each address it is given; prints the ports that took a connection, for each address."""

import errno
import json
import select
import socket
import sys

AT_ONCE = 4000


def opened(address, ports, patience):
    poll, trying, found = select.poll(), {}, []
    for port in ports:
        sock = socket.socket()
        sock.setblocking(False)
        code = sock.connect_ex((address, port))
        if code == 0:
            found.append(port)
            sock.close()
        elif code == errno.EINPROGRESS:
            trying[sock.fileno()] = (sock, port)
            poll.register(sock, select.POLLOUT)
        else:
            sock.close()
    while trying and (ready := poll.poll(patience * 1000)):
        for fd, _ in ready:
            poll.unregister(fd)
            sock, port = trying.pop(fd)
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                found.append(port)
            sock.close()
    for sock, _ in trying.values():
        sock.close()
    return found


reached = {}
for address in sys.argv[1:]:
    reached[address] = []
    for first in range(1, 65536, AT_ONCE):
        reached[address] += opened(address, range(first, min(first + AT_ONCE, 65536)), 0.1)
print(json.dumps(reached))
