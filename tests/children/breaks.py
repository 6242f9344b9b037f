"""Makes steps and stops in the debugger at one of them: `breaks.py TASK STEP STEPS [how]`.

How: breakpoint, set_trace, last (several times), raise, own (handles SIGTERM), thread, child, late (post_mortem).
"""

import os
import pdb
import signal
import sys
import threading
import time

where, stop, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
how = sys.argv[4] if len(sys.argv) > 4 else "breakpoint"
me = os.environ["CLUSTERKIT_TASK"]
progress = os.open(os.environ["CLUSTERKIT_PROGRESS"], os.O_WRONLY | os.O_NONBLOCK)
attempt = os.environ["CLUSTERKIT_ATTEMPT"]


def step(number, loss=0.5):
    if me in where.split(",") and (number == stop or (how == "often" and number >= stop)):
        if how == "set_trace":
            pdb.set_trace(header="the header")
        elif how == "raise":
            raise ValueError("the loss is nan")
        else:
            breakpoint()
        loss = loss * 2
    return loss


def wait(seconds):
    print("waiting")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.01)
    return "waited"


def train():
    for number in range(1, steps + 1):
        loss = step(number)
        os.write(progress, b'{"kind":"progress","attempt":%s,"step":%d}\n' % (attempt.encode(), number))
        print(f"step {number} loss {loss}", flush=True)
        time.sleep(0.05)


if how == "thread":
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
elif how == "child":
    if os.fork() == 0:
        step(stop)
        os._exit(0)
    os.wait()
    how = "none"
    stop = 0
    train()
else:
    if how == "own":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    train()
