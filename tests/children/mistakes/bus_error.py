"""Reads shared memory whose file has been cut off, as where /dev/shm is full."""

import mmap

with open("shared", "w+b") as file:
    file.truncate(4096)
    memory = mmap.mmap(file.fileno(), 4096)
    file.truncate(0)
    print(memory[0])
