"""Programs that inspect themselves and their environment. See cases.py for the options in brackets."""

TEXT = r"""
### sees exactly its environment
import os
print(sorted(os.environ.items()))
print(sorted(os.environb.items()) == sorted((os.fsencode(k), os.fsencode(v)) for k, v in os.environ.items()))
### gives its children exactly its environment, also those that C starts
import os, subprocess
print(sorted(subprocess.check_output('env').split(b'\n')))
print(os.system('env | LC_ALL=C sort'))
### changes its environment, for itself and its children
import os, subprocess
os.environ['NEW'] = 'x'
del os.environ['DIFFERENT']
print(os.environ.get('DIFFERENT'), subprocess.check_output('echo $NEW-$DIFFERENT', shell=True))
### is shown by /proc with its environment
import os
print(sorted(open('/proc/self/environ', 'rb').read().split(b'\0')))
### is the child of who started it and leads its own session
import os
print(os.getppid(), os.getpid() == os.getpgid(0) == os.getsid(0), os.getpgrp() == os.getpid())
print(os.path.exists('/dev/tty') and os.ctermid())
### has no children
import os
try:
    os.wait()
except ChildProcessError as error:
    print(error)
import multiprocessing
print(multiprocessing.active_children(), multiprocessing.parent_process(), multiprocessing.current_process().name)
### has the dispositions of all signals
import signal
print([(n, signal.getsignal(n)) for n in sorted(signal.valid_signals()) if n != signal.SIGRTMIN + 9])
for line in open('/proc/self/status'):
    if line[:6] in ('SigBlk', 'SigIgn', 'SigPnd', 'ShdPnd'):
        print(line)
print(signal.pthread_sigmask(0, []), signal.sigpending(), signal.getitimer(signal.ITIMER_REAL))
print(signal.set_wakeup_fd(-1))
### has umask, limits, priority, processors and directory
import os, resource
print(oct(os.umask(0o22)), os.nice(0), sorted(os.sched_getaffinity(0)), os.getcwd(), os.listdir('.'))
print([(n, resource.getrlimit(getattr(resource, n))) for n in dir(resource) if n.startswith('RLIMIT')])
print(open('/proc/self/oom_score_adj').read(), open('/proc/self/comm').read(), os.readlink('/proc/self/exe'))
### has such process attributes
for line in open('/proc/self/status'):
    if line.split(':')[0] in ('Umask', 'Uid', 'Gid', 'Groups', 'Threads', 'CapEff', 'NoNewPrivs', 'Seccomp'):
        print(line)
import ctypes
libc = ctypes.CDLL(None)
print([libc.prctl(n, 0, 0, 0, 0) for n in (3, 7, 27, 30)])
### inherits nothing that a child would inherit
import os
for fd in range(3, 1024):
    try:
        if os.get_inheritable(fd):
            print(fd, os.readlink(f'/proc/self/fd/{fd}'))
    except OSError:
        continue
print([os.readlink(f'/proc/self/fd/{fd}').partition(':')[0] for fd in range(3)])
print(os.open('/', os.O_RDONLY), os.pipe(), [fd for fd in os.listdir('/proc/self/fd') if int(fd) < 100])
### has streams with such flags
import fcntl, os
print([oct(fcntl.fcntl(fd, fcntl.F_GETFL)) for fd in range(3)], [fcntl.fcntl(fd, fcntl.F_GETFD) for fd in range(3)])
### has such arguments, flags and paths
import sys
print(sys.argv, sys.orig_argv, sys.path, sys.flags, sys.executable, sys.warnoptions, sys._xoptions)
print(sys.prefix, sys.exec_prefix, sys.base_prefix, sys._base_executable, sys.platlibdir, sys.pycache_prefix)
print(sys.dont_write_bytecode, sys.hexversion, sys.api_version, sys.byteorder, sys.implementation)
### has such streams
import sys
for s in (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__):
    print(s, s.name, s.mode, s.encoding, s.errors, s.newlines, s.line_buffering, s.write_through, s.isatty())
    print(type(s.buffer), s.buffer.name, s.fileno(), s.seekable(), s.readable(), s.writable(), s.closed)
    raw = getattr(s.buffer, 'raw', s.buffer)
    print(raw, raw.name, raw.mode, raw.closefd, raw.seekable(), raw._blksize)
print(sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__, sys.stdin is sys.__stdin__)
### asks its output where it is
import io, sys
for stream in (sys.stdout, sys.stdout.buffer, sys.stderr):
    try:
        print(stream.tell())
    except OSError as error:
        print(type(error), error)
### has these hooks and settings
import gc, locale, logging, sys, threading
print(sys.excepthook, sys.unraisablehook, sys.displayhook, sys.breakpointhook, threading.excepthook)
print(sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace(), sys.getprofile())
print(sys.get_asyncgen_hooks(), sys.get_coroutine_origin_tracking_depth(), sys.get_int_max_str_digits())
print(gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.garbage)
print(locale.setlocale(locale.LC_ALL), locale.getpreferredencoding(), sys.getfilesystemencoding())
print(hasattr(sys, 'last_value'), hasattr(sys, 'ps1'), hasattr(sys, 'tracebacklimit'))
### has one thread, the main one
import os, threading, time
main = threading.main_thread()
print(len(threading.enumerate()), main.name, main.daemon, main is threading.current_thread())
print(main.ident == threading.get_ident(), main.native_id == threading.get_native_id() == os.getpid())
print(threading.Thread().name, threading.stack_size(), os.listdir('/proc/self/task') == [str(os.getpid())])
print(time.process_time() < 30, time.thread_time() < 30)
### has nothing in its module that it did not put there
print(sorted(globals()), __name__, __file__, __spec__, __package__, __doc__)
print({k: v for k, v in globals().items() if k not in ('__builtins__', '__loader__')})
### has a docstring
'''What it does.'''
print(__doc__, __builtins__)
### is the module __main__
import __main__, importlib, sys
print(vars(__main__) is globals(), __main__, sys.modules['__main__'] is __main__, __main__.__spec__)
try:
    importlib.reload(__main__)
except Exception as error:
    print(type(error), error)
### finds its own modules
import beside, sub.inside, sys
print(beside.x, sub.inside.x, beside.__file__, sub.__path__)
print('entry' in sys.modules, 'fork_server' in sys.modules, 'clusterkit' in sys.modules)
### imports a module that it has just written
import importlib, pathlib
pathlib.Path('fresh.py').write_text('x = 5')
importlib.invalidate_caches()
import fresh
print(fresh.x)
pathlib.Path('fresh.py').unlink()
### has the directory of temporary files that its environment names
import tempfile, os
print(tempfile.gettempdir() == os.environ['TMPDIR'], tempfile.gettempprefix(), tempfile.template)
with tempfile.NamedTemporaryFile() as file:
    print(os.path.dirname(file.name) == os.environ['TMPDIR'])
### has the time zone that its environment names
import datetime, os, time
print(os.environ['TZ'], time.tzname, time.timezone, time.altzone, time.daylight, time.localtime(0))
print(datetime.datetime.fromtimestamp(0).astimezone().isoformat(), time.strftime('%Z %z', time.localtime(0)))
### logs how long it has been running
import logging
record = logging.makeLogRecord({})
print(record.relativeCreated < 60_000, record.processName, record.threadName)
### starts multiprocessing where it is
import os, multiprocessing.process as p, multiprocessing as m
print(p.ORIGINAL_DIR == os.getcwd(), m.get_start_method(allow_none=True), m.get_all_start_methods())
from multiprocessing import spawn
print({k: v for k, v in spawn.get_preparation_data('name').items() if k not in ('authkey',)})
"""
