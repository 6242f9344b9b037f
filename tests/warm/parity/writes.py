"""Programs that write, read, warn and log. See cases.py for the options in brackets."""

TEXT = r"""
### prints without a newline at its end
print('no newline', end='')
### prints without a newline at its end, buffered [buffered] [no tensorflow]
print('no newline', end='')
### leaves by os._exit with output in its buffers [buffered] [no tensorflow] [fails]
import os, sys
print('lost')
print('seen', file=sys.stderr)
os._exit(5)
### aborts with output in its buffers [buffered] [no tensorflow] [fails]
import os
print('lost')
os.abort()
### writes to both streams, buffered [buffered] [no tensorflow]
import sys
for i in range(3000):
    print(i)
    if i % 500 == 0:
        print(-i, file=sys.stderr)
### has buffered streams [buffered] [no tensorflow]
import sys
for s in (sys.stdin, sys.stdout, sys.stderr):
    print(s, s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty(), s.seekable())
    print(type(s.buffer), s.buffer.raw, s.buffer.raw.name, s.buffer.raw._blksize, s._CHUNK_SIZE)
try:
    print(sys.stdout.tell())
except OSError as error:
    print(type(error), error)
### writes with C and with Python [buffered] [no tensorflow]
import ctypes, sys
libc = ctypes.CDLL(None)
print('a', flush=True)
libc.puts(b'b')
libc.fflush(None)
print('c')
libc.puts(b'd')
### writes binary data, buffered [buffered] [no tensorflow]
import sys
sys.stdout.buffer.write(bytes(range(256)) * 100)
print('after')
### writes 10 MB at its end
import atexit, sys
atexit.register(lambda: sys.stdout.write('0123456789abcde\n' * 655_360))
### writes 10 MB at its end, buffered [buffered] [no tensorflow]
import sys
sys.stdout.write('0123456789abcde\n' * 655_360)
### writes binary data
import os, sys
sys.stdout.buffer.write(bytes(range(256)))
sys.stderr.buffer.write(b'\xff\x00')
os.write(1, b'by os')
os.writev(2, [b'a', b'b'])
### prints what can't be encoded [fails]
print('\ud800')
### prints what can't be encoded to stderr
import sys
print('\udc80 \u20ac', file=sys.stderr)
### reconfigures its stdout
import sys
sys.stdout.reconfigure(encoding='utf-16-le', newline='\r\n', line_buffering=False)
print('wide')
### opens its stdout again
import os
with open(1, 'w', closefd=False) as file, os.fdopen(os.dup(2), 'wb', 0) as other:
    file.write('first ')
    other.write(b'second ')
print('third')
### redirects its stdout
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()) as text:
    print('inside')
print(repr(text.getvalue()))
### is not read by anybody [deaf] [fails]
for _ in range(10):
    print('x')
### is not read by anybody and finds out at its end [deaf] [fails] [buffered] [no tensorflow]
print('x')
### is not read by anybody and says nothing [deaf]
x = 1
### dies of SIGPIPE where nobody reads it [deaf] [fails]
import os, signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.write(1, b'x')
### reads at the end of its input
import os, sys
print(sys.stdin.readline() == '', list(sys.stdin), sys.stdin.buffer.read(), os.read(0, 10))
print(os.readlink('/proc/self/fd/0'), sys.stdin.isatty(), os.isatty(0))
### asks for input [fails]
input('how many? ')
### asks for a password [fails]
import signal
signal.alarm(20)
import getpass, warnings
warnings.simplefilter('ignore')
getpass.getpass()
### warns
import warnings
def f():
    warnings.warn('in f', DeprecationWarning, stacklevel=2)
warnings.warn('mine', DeprecationWarning)
f()
warnings.warn('twice')
for _ in range(2):
    warnings.warn('once here', FutureWarning)
warnings.warn('hidden', ImportWarning)
warnings.warn('resource', ResourceWarning)
print(__warningregistry__.keys())
### has modules that warn
import beside
beside.warn(DeprecationWarning)
beside.warn(UserWarning)
beside.warn(PendingDeprecationWarning)
### turns warnings into errors [fails]
import warnings
warnings.simplefilter('error')
warnings.warn('now')
### captures warnings in its log
import logging, warnings
logging.basicConfig()
logging.captureWarnings(True)
warnings.warn('x')
### warns from beyond its first frame [no plain]
import warnings
warnings.warn('far', stacklevel=2)
warnings.warn('farther', stacklevel=50)
### shows its stack [no plain]
import inspect, traceback
def f():
    traceback.print_stack()
    print(len(inspect.stack()))
f()
### asks for the caller of its module [no plain]
import sys
print(sys._getframe().f_back.f_code.co_name)
### logs without a configuration
import logging
logging.info('hidden')
logging.warning('shown %d', 1)
logging.getLogger('a.b').error('shown too')
try:
    1 / 0
except ZeroDivisionError:
    logging.exception('with its traceback')
### logs by a logger without a configuration
import logging
logging.getLogger('mine').warning('by the last resort')
print(logging.root.handlers, logging.root.level, logging.getLogger('mine').handlers, logging.lastResort)
### configures its log
import logging, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format='%(levelname)s %(name)s %(message)s %(lineno)d')
logging.debug('d')
logging.getLogger('x').info('i')
### configures its log by a dictionary
import logging, logging.config
logging.config.dictConfig({
    'version': 1, 'disable_existing_loggers': True, 'root': {'handlers': ['h'], 'level': 'INFO'},
    'handlers': {'h': {'class': 'logging.StreamHandler', 'formatter': 'f'}},
    'formatters': {'f': {'format': '%(processName)s %(threadName)s %(funcName)s %(filename)s %(message)s'}},
})
logging.getLogger('x').info('i')
### replaces stderr and logs
import io, logging, sys
old, sys.stderr = sys.stderr, io.StringIO()
logging.warning('into the text')
print(repr(sys.stderr.getvalue()))
### logs with an error in it [no plain]
import logging
logging.basicConfig()
logging.warning('%d', 'no number')
### shows where it is on request [dump] [no plain] [fails]
import _signal, sys, time
def leave(*_):
    sys.exit(9)
def waiting_here():
    while [_signal.signal(_signal.SIGTERM, leave)]: time.sleep(0.05)
waiting_here()
### is still unbuffered in its children
import os, subprocess, sys
print(os.environ.get('PYTHONUNBUFFERED'))
subprocess.run([sys.executable, '-c', 'import sys; print(sys.stdout.write_through, sys.flags.unbuffered)'])
"""
