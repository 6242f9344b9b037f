"""Tiny programs that must not notice whether `python` or clusterkit's entry started them."""

# Each begins with a line that says what it does.
_PROGRAMS = r"""
### exits with a code
import sys
sys.exit(7)
### exits with a text
import sys
sys.exit('no such thing')
### exits with None
import sys
sys.exit(None)
### exits with a code beyond a byte
import sys
sys.exit(256 + 3)
### raises
def f():
    return 1 / 0


f()
### raises from another
try:
    {}['a']
except KeyError as error:
    raise ValueError('b') from error
### raises while handling
try:
    {}['a']
except KeyError:
    raise ValueError('b')
### raises a group
raise ExceptionGroup('two', [ValueError(1), TypeError(2)])
### raises what can't be changed
import dataclasses
@dataclasses.dataclass(frozen=True)
class Frozen(Exception):
    number: int


raise Frozen(3) from KeyError(1)
### is no Python
x = 1
def f(:
    pass
### is badly indented
if True:
x = 1
### imports what is no Python
import broken
### imports what raises
import raising
### imports what is not there
import no_such_module_at_all
### raises KeyboardInterrupt
raise KeyboardInterrupt
### gets SIGINT
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(60)
### gets SIGTERM
import os, signal, time
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
### gets SIGKILL
import os, signal, time
os.kill(os.getpid(), signal.SIGKILL)
time.sleep(60)
### aborts
import os
print('so far', end='')
os.abort()
### leaves by os._exit
import atexit, os
atexit.register(print, 'never')
print('so far')
os._exit(5)
### has an excepthook
import sys
sys.excepthook = lambda *e: print('hook', e[0], e[2].tb_lineno)

raise OSError(5)
### limits its tracebacks
import sys
sys.tracebacklimit = 1
def f():
    raise OSError(5)


f()
### looks at its arguments
import sys
print(sys.argv)
### looks at its globals
print(sorted(globals()), __name__, __file__, __spec__, __package__, __doc__, __cached__)
print(type(__loader__), __loader__.name, __loader__.path, __builtins__, __annotations__)
### looks at its module
import sys
print(sys.modules['__main__'].__dict__ is globals(), sys.modules['__main__'])
### looks at its path
import sys, os
print(sys.path, os.getcwd())
### looks at signals
import signal
print([(n, signal.getsignal(n)) for n in (2, 13, 15)], signal.pthread_sigmask(0, []))
### looks at its descriptors
import os
print([fd for fd in range(3, 50) if os.path.exists(f'/proc/self/fd/{fd}')
       and os.get_inheritable(fd)])
### has annotations
import typing
def f(x: int) -> str: ...


print(f.__annotations__, typing.get_type_hints(f))
### pickles its own class
import pickle
class A:
    pass


print(pickle.loads(pickle.dumps(A())).__class__ is A)
print(pickle.dumps(A()))
### imports itself
import program
print(__name__, program.__name__, program.__file__)
### shows its own source
import inspect
def f():
    return 1  # here


print(inspect.getsource(f))
### forks a pool
import multiprocessing as m
def f(x):
    return x * x


if __name__ == '__main__':
    with m.get_context('fork').Pool(2) as pool:
        print(pool.map(f, range(4)))
### spawns a pool
import multiprocessing as m
def f(x):
    return x * x, __name__


if __name__ == '__main__':
    with m.get_context('spawn').Pool(1) as pool:
        print(pool.map(f, range(4)))
### has a thread at its end
import threading
def f():
    over.wait()
    print('thread')


over = threading.Event()
threading._register_atexit(over.set)  # the interpreter ends, and is to wait for the thread
threading.Thread(target=f).start()
print('main')
### has a thread that raises
import threading
def f():
    raise OSError(5)


thread = threading.Thread(target=f)
thread.start()
thread.join()
### raises with a thread at its end
import threading
def f():
    over.wait()
    print('thread')


over = threading.Event()
threading._register_atexit(over.set)  # the interpreter ends, and is to wait for the thread
threading.Thread(target=f).start()
raise OSError(5)
### has something to do at its end
import atexit, sys
atexit.register(print, 'first')
atexit.register(lambda: print('second', sys.last_value))
class A:
    def __del__(self):
        print('deleted')


a = A()
raise OSError(5)
### deletes at its end
class A:
    def __del__(self):
        print('deleted', __name__)


a = A()
print('end')
### says much at its end
import atexit, sys
atexit.register(lambda: sys.stdout.write('x' * 3_000_000))
### reads stdin
import sys
print(repr(sys.stdin.read()))
### warns
import warnings
warnings.warn('old', DeprecationWarning)
warnings.warn('bad')
### runs its tests
import unittest


class T(unittest.TestCase):
    def test(self):
        pass


print(unittest.defaultTestLoader.loadTestsFromName('__main__'))
### awaits
import asyncio
async def f():
    await asyncio.sleep(0)
    raise OSError(5)


asyncio.run(f())
### starts a child
import subprocess, sys
print(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True))
### writes to both streams
import sys
for i in range(5):
    print(i)
    print(-i, file=sys.stderr)
### has a coding line
# -*- coding: latin-1 -*-
print('é', ascii('é'))
"""

# What they import, and what `python -m` finds.
_FILES = r"""
### broken.py
def f(:
    pass
### raising.py
def f():
    raise OSError(5)


f()
### pkg/__init__.py
print('the package', __name__)
### pkg/other.py
def hello():
    return f'hello from {__name__}'
### pkg/__main__.py
from .other import hello
print(hello(), __name__, __package__, __spec__.name, __file__)
### pkg/mod.py
import sys
from .other import hello
print(hello(), __name__, __package__, __spec__.name, sys.argv, sys.path)
print(sorted(globals()))
### pkg/fails.py
from .other import hello
hello(1)
### pkg/broken.py
from .other import hello
def f(:
    pass
### pkg/pool.py
import multiprocessing as m
def f(x):
    return x * x, __name__


if __name__ == '__main__':
    with m.get_context('spawn').Pool(1) as pool:
        print(pool.map(f, range(3)))
### pkg/leaves.py
import sys
sys.exit(9)
"""


def _sections(text: str) -> dict[str, str]:
    parts = (part.partition("\n") for part in text.split("### ")[1:])
    return {name: source for name, _, source in parts}


PROGRAMS = _sections(_PROGRAMS)
FILES = _sections(_FILES)
