"""No more threads can be started."""

import resource
import threading
import time

import tensorflow as tf

print(tf.__version__)
with open("/proc/self/statm") as file:
    size = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20),) * 2)
threading.stack_size(256 << 20)  # more than is left, so that a thread fails at its start, and not in its first lines
threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
