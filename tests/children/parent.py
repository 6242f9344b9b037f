"""Spawns a task through the entry, prints its pid once it runs, and waits: `parent.py ENTRY PROGRAM`."""

import os
import signal
import subprocess
import sys

os.mkfifo("pipe")
stacks = os.open("stacks.txt", os.O_WRONLY | os.O_CREAT)
words = [sys.executable, sys.argv[1], str(os.getpid()), str(stacks), "script", sys.argv[2]]
task = subprocess.Popen(words, stdout=subprocess.PIPE, pass_fds=(stacks,), start_new_session=True)
task.stdout.readline()
print(task.pid, flush=True)
signal.pause()
