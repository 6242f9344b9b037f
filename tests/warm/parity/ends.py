"""Programs that end in every possible way. See cases.py for the options in brackets."""

TEXT = r"""
### exits with 0
import sys
sys.exit(0)
### exits with a negative number [fails]
import sys
sys.exit(-1)
### exits with True [fails]
import sys
sys.exit(True)
### exits with an object [fails]
import sys
class A:
    def __str__(self):
        return 'an A'
sys.exit(A())
### exits with a tuple [fails]
import sys
sys.exit((1, 'b'))
### exits with an empty text [fails]
import sys
sys.exit('')
### exits with a text that can't be encoded [fails]
import sys
sys.exit('a \udc80 b')
### raises SystemExit with a cause [fails]
try:
    1 / 0
except ZeroDivisionError as error:
    raise SystemExit(4) from error
### uses exit() and not sys.exit [fails]
exit(3)
### raises an exception whose text can't be made [fails]
class E(Exception):
    def __str__(self):
        raise ValueError('no text')
raise E
### raises a subclass of KeyboardInterrupt [fails]
class E(KeyboardInterrupt):
    pass
raise E('mine')
### raises an exception with notes [fails]
error = ValueError('a\nb')
error.add_note('a note')
raise error
### raises a group of groups with causes [fails]
def f(x):
    raise ValueError(x)
errors = []
for i in range(2):
    try:
        f(i)
    except ValueError as error:
        errors.append(error)
raise ExceptionGroup('outer', [*errors, ExceptionGroup('inner', [OSError(1, 'x')])]) from KeyError('why')
### recurses too deeply [fails] [no plain]
def f(n):
    return f(n + 1)
f(0)
### raises from a lambda in a comprehension in a class [fails]
class A:
    x = [(lambda: 1 / 0)() for _ in range(1)]
### raises deep inside the standard library [fails]
import json
json.loads('{"a": }')
### raises inside a module beside it [fails]
import beside
beside.fail(0)
### has a module beside it that exits [fails]
import exits
### has source with a null byte [fails]
x = '<NUL>'
### has source that is not UTF-8 [fails]
x = '<LATIN>'
### has an encoding that nobody knows [fails]
# -*- coding: no-such-encoding -*-
x = 1
### has a tab too much [fails]
if True:
        x = 1
	y = 2
### has source that warns when it is compiled
x = '\d'
print(1 is 1)
### asserts [fails]
assert 1 == 2, 'they differ'
### is empty
### consists of a comment without a newline at its end
# nothing
### future imports have no effect on it but its own
from __future__ import annotations
def f(x: nothing) -> None: ...
print(f.__annotations__)
### annotations are evaluated without the future import [fails]
def f(x: nothing) -> None: ...
### kills itself by SIGPIPE with the default action [fails]
import os, signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGPIPE)
### ignores SIGPIPE until it says otherwise
import os, signal
os.kill(os.getpid(), signal.SIGPIPE)
os.kill(os.getpid(), signal.SIGXFSZ)
print('alive')
### dies of SIGHUP [fails]
import os, signal
os.kill(os.getpid(), signal.SIGHUP)
### dies of a real-time signal [fails]
import os, signal
os.kill(os.getpid(), signal.SIGRTMIN + 3)
### dies of a segmentation fault [fails]
import ctypes
ctypes.string_at(0)
### dies of a segmentation fault with faulthandler [fails] [no plain]
import ctypes, faulthandler, os, signal, sys, re
read, write = os.pipe()
if pid := os.fork():
    os.close(write)
    _, status = os.waitpid(pid, 0)
    text = open(read).read()
    print(re.sub('0x[0-9a-f]+', '0x', text.partition('Extension modules')[0]).strip())
    sys.exit(os.waitstatus_to_exitcode(status) and 1)
faulthandler.enable(open(write, 'w'))
os.kill(os.getpid(), signal.SIGSEGV)
### catches SIGINT
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    signal.pause()
except KeyboardInterrupt:
    print('interrupted')
### is interrupted while it waits for a thread at its end
import os, signal, threading, time
over = threading.Event()
threading._register_atexit(over.set)
def main():  # what the main thread does, and how often it has slept
    lines = open(f'/proc/self/task/{os.getpid()}/status').readlines()
    return [line.split()[1] for line in lines if line.startswith(('State:', 'voluntary_ctxt_switches:'))]
def f():
    over.wait()
    before = None
    while (now := main()) != before or now[0] != 'S':  # it has slept in between: it waits for this thread
        before = now
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.3)
threading.Thread(target=f).start()
### handles SIGTERM and exits [fails]
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *a: sys.exit(a[0]))
os.kill(os.getpid(), signal.SIGTERM)
### is woken by an alarm [fails]
import signal, time
signal.setitimer(signal.ITIMER_REAL, 0.05)
time.sleep(60)
### SystemExit in a thread ends the thread alone
import sys, threading
thread = threading.Thread(target=sys.exit, args=(5,))
thread.start()
thread.join()
print('on')
### has a thread hook
import threading
threading.excepthook = lambda args: print('hook', args.exc_type, args.thread.name)
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
### has a daemon thread at its end
import threading, time
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print('end')
### leaves a thread pool at its end
import concurrent.futures, threading
pool = concurrent.futures.ThreadPoolExecutor(2)
over = threading.Event()
threading._register_atexit(over.set)  # called before the pool's own, which waits for its threads
pool.submit(over.wait).add_done_callback(lambda _: print('done'))
print('end')
### runs what it registered with atexit in order, and goes on after what raises there
import atexit
atexit.register(print, 'last')
class A:
    def __call__(self):
        1 / 0
    def __repr__(self):
        return 'an A'
atexit.register(A())
atexit.register(print, 'first')
### exits in atexit with another code
import atexit, sys
atexit.register(sys.exit, 7)
### exits in atexit after a failure [fails]
import atexit, sys
atexit.register(print, 'still')
raise ValueError
### has an unraisable exception
class Del:
    def __repr__(self):
        return 'a Del'
    def __call__(self):
        raise ValueError('in del')
class A:
    __del__ = Del()
a = A()
del a
print('on')
### has a generator and a cycle at its end
import sys
class A:
    def __del__(self):
        print('deleted', sys is not None)
def g():
    try:
        yield
    finally:
        print('closed')
a = A()
a.a = a
b = g()
next(b)
### registers a finalizer
import weakref
class A:
    pass
a = A()
weakref.finalize(a, print, 'finalized')
print('end')
### has an excepthook that raises [fails]
import sys
def hook(*args):
    raise TypeError('in the hook')
sys.excepthook = hook
raise ValueError('x')
### has no excepthook [fails]
import sys
del sys.excepthook
raise ValueError('x')
### has no stderr and fails [fails]
import sys
sys.stderr = None
raise ValueError('x')
### has closed its stdout
import sys
sys.stdout.close()
### has closed descriptor 1
import os
os.close(1)
### replaces its process
import os
os.execvp('sh', ['sh', '-c', 'trap; echo $0 $(test $PPID -gt 1 && echo $-); exit 0'])
### looks at the traceback that it will leave [fails]
import atexit, sys, traceback
@atexit.register
def look():
    traceback.print_tb(sys.last_traceback)
    print(sys.last_type, sys.last_value, len(traceback.extract_tb(sys.last_traceback)))
def f():
    raise ValueError(5)
f()
### formats an exception that it caught
import traceback, sys
try:
    1 / 0
except ZeroDivisionError as error:
    traceback.print_exc()
    print(len(traceback.extract_tb(error.__traceback__)), sys.exc_info()[2].tb_next)
"""
