"""/dev/shm has no space left."""

import os

with open("/dev/shm/clusterkit-mistake", "wb") as file:
    os.unlink(file.name)
    os.posix_fallocate(file.fileno(), 0, 1 << 50)
