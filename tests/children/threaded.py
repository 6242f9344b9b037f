"""Has a second thread, and says so; lets a debugger that is not its parent come."""

import ctypes
import threading
import time

PR_SET_PTRACER, ANY = 0x59616D61, ctypes.c_ulong(-1)
ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY, 0, 0, 0)
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("two threads", flush=True)
time.sleep(60)
