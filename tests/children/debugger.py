"""Holds a thread as a debugger does, so that it does not go away when it is killed: `debugger.py TID`.

Says `held`, or why it can't, and lets go when its input ends.
"""

import ctypes
import os
import sys

PTRACE_SEIZE = 0x4206
libc = ctypes.CDLL(None, use_errno=True)
held = libc.ptrace(PTRACE_SEIZE, int(sys.argv[1]), None, None) == 0
print("held" if held else os.strerror(ctypes.get_errno()), flush=True)
sys.stdin.read()
