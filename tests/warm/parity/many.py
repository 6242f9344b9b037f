"""Programs with several processes, threads or tasks. See cases.py for the options in brackets."""

TEXT = r"""
### forks
import os, sys
print('before')
if pid := os.fork():
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
else:
    print('child', os.getppid() != 1, os.getpgid(0) == os.getppid())
    sys.exit(3)
print('parent')
### forks a child that raises
import os
if pid := os.fork():
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
else:
    raise ValueError('in the child')
### forks with buffers filled [buffered] [no tensorflow]
import os
print('twice')
if pid := os.fork():
    os.waitpid(pid, 0)
### forks a process
import multiprocessing as m
def f(queue, x):
    queue.put((x, __name__, m.current_process().name, m.parent_process().name))
if __name__ == '__main__':
    context = m.get_context('fork')
    queue = context.Queue()
    process = context.Process(target=f, args=(queue, 5))
    process.start()
    print(queue.get())
    process.join()
    print(process.exitcode, process.name)
### spawns a process
import multiprocessing as m, os, sys
def f(queue, x):
    print(sys.argv, sys.path == x, os.getcwd())
    queue.put((__name__, __file__, m.current_process().name, m.parent_process().name))
if __name__ == '__main__':
    context = m.get_context('spawn')
    queue = context.SimpleQueue()
    process = context.Process(target=f, args=(queue, sys.path))
    process.start()
    print(queue.get())
    process.join()
    print(process.exitcode)
### starts a process by multiprocessing's own fork server
import multiprocessing as m
def f(x):
    return x, __name__, m.current_process().name
if __name__ == '__main__':
    with m.get_context('forkserver').Pool(1) as pool:
        print(pool.map(f, range(2)))
### uses the default way of multiprocessing
import multiprocessing as m
def f(x):
    return x + 1
if __name__ == '__main__':
    with m.Pool(2) as pool:
        print(pool.map(f, range(5)), m.get_start_method())
### spawns without the guard that it takes [fails]
import multiprocessing as m
m.set_start_method('spawn')
process = m.Process(target=print)
process.start()
process.join()
raise SystemExit(process.exitcode)
### spawns a process that fails
import multiprocessing as m
def f():
    raise ValueError('in the process')
if __name__ == '__main__':
    for how in ('fork', 'spawn'):
        process = m.get_context(how).Process(target=f, name='the process')
        process.start()
        process.join()
        print(process.exitcode)
### terminates a process
import multiprocessing as m, time
if __name__ == '__main__':
    process = m.get_context('fork').Process(target=time.sleep, args=(60,))
    process.start()
    process.terminate()
    process.join()
    print(process.exitcode)
### leaves a daemonic process at its end
import multiprocessing as m, time
if __name__ == '__main__':
    m.get_context('fork').Process(target=time.sleep, args=(600,), daemon=True).start()
    print('end')
### waits for a process at its end
import atexit, multiprocessing as m, os
read, write = os.pipe()
def f():
    os.read(read, 1)
    print('child')
if __name__ == '__main__':
    m.get_context('fork').Process(target=f).start()
    atexit.register(os.write, write, b'.')  # called before multiprocessing's own, which waits for the process
    print('end')
### shares memory, locks, and a manager
import multiprocessing as m
from multiprocessing import shared_memory
def f(value, lock, d):
    with lock:
        value.value += 1
    d['a'] = value.value
if __name__ == '__main__':
    context = m.get_context('spawn')
    with context.Manager() as manager:
        value, d = context.Value('i', 4), manager.dict()
        process = context.Process(target=f, args=(value, context.Lock(), d))
        process.start()
        process.join()
        print(value.value, dict(d))
    memory = shared_memory.SharedMemory(create=True, size=10)
    memory.buf[0] = 7
    print(memory.buf[0])
    memory.close()
    memory.unlink()
### talks by a connection with its own key
import multiprocessing as m, threading
from multiprocessing.connection import Client, Listener
with Listener() as listener:
    def f():
        with Client(listener.address, authkey=m.current_process().authkey) as client:
            client.send('hello')
    listener._authkey = m.current_process().authkey
    threading.Thread(target=f).start()
    with listener.accept() as connection:
        print(connection.recv())
### has a pool of processes
import concurrent.futures, multiprocessing as m, os
def f(x):
    if x == 3:
        raise ValueError(x)
    return x * 2
if __name__ == '__main__':
    for how in ('fork', 'spawn'):
        with concurrent.futures.ProcessPoolExecutor(1, m.get_context(how)) as pool:
            print(list(pool.map(f, range(3))))
            print(repr(pool.submit(f, 3).exception()))
### has a pool whose process dies
import concurrent.futures, os
if __name__ == '__main__':
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        print(repr(pool.submit(os._exit, 3).exception()))
### pickles what it defines
import copy, dataclasses, enum, pickle, collections, typing
@dataclasses.dataclass(order=True)
class D:
    x: int
    y: list = dataclasses.field(default_factory=list)
class E(enum.Enum):
    A = 1
N = collections.namedtuple('N', 'a b')
T = typing.NamedTuple('T', [('a', int)])
class Outer:
    class Inner:
        pass
def f(): ...
for value in (D(1, [2]), E.A, N(1, 2), T(1), f, Outer.Inner):
    data = pickle.dumps(value)
    print(data, pickle.loads(data) == value, copy.deepcopy(value) == value)
print(N.__module__, T.__module__, E.__module__)
### pickles by value
import cloudpickle
def f(x):
    return x + y
y = 5
g = cloudpickle.loads(cloudpickle.dumps(f))
print(g(1), g.__module__, g.__globals__ is globals())
### starts programs
import subprocess, sys
print(subprocess.run(['sh', '-c', 'trap; echo $-; pwd; ls /proc/self/fd; exit 3']).returncode)
print(subprocess.check_output([sys.executable, '-c', 'import signal as s; print(s.getsignal(13), s.getsignal(2))']))
print(subprocess.run([sys.executable, 'program2.py', 'x'], capture_output=True))
### starts itself again
import subprocess, sys
print(len(sys.argv))
if sys.argv[1:] != ['again']:
    subprocess.run([sys.orig_argv[0], sys.orig_argv[1], 'again'], check=True)
### starts a program and sends it a signal
import signal, subprocess
with subprocess.Popen(['sleep', '60'], start_new_session=True) as process:
    process.send_signal(signal.SIGINT)
    print(process.wait())
### leads the group of what it starts
import os, signal, subprocess
process = subprocess.Popen(['sleep', '60'])
print(os.getpgid(process.pid) == os.getpid(), os.getsid(process.pid) == os.getpid())
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.killpg(0, signal.SIGTERM)
print(process.wait())
### starts programs with asyncio
import asyncio
async def main():
    process = await asyncio.create_subprocess_exec('cat', stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    print(await process.communicate(b'through'), process.returncode)
    print(await asyncio.to_thread(lambda: 5), asyncio.current_task().get_name())
    loop = asyncio.get_running_loop()
    print(type(loop), type(asyncio.get_event_loop_policy()), loop.get_debug())
asyncio.run(main())
### is interrupted in asyncio [fails]
import asyncio, os, signal
async def main():
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(60)
asyncio.run(main())
### loses an asyncio task
import asyncio, gc
async def bad():
    raise ValueError('lost')
async def main():
    asyncio.create_task(bad())
    await asyncio.sleep(0.01)
    gc.collect()
asyncio.run(main())
### runs threads
import threading, concurrent.futures
names = []
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    print(list(pool.map(lambda x: x * x, range(10))))
    names.append(pool._threads and pool._thread_name_prefix)
threads = [threading.Thread(target=lambda: names.append(threading.current_thread().name)) for _ in range(3)]
for t in threads:
    t.start()
    t.join()
timer = threading.Timer(0.01, names.append, ['timer'])
timer.start()
timer.join()
print(names)
### serves and asks itself
import http.server, threading, urllib.request, os
os.environ['no_proxy'] = '*'
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'hello')
    def log_message(self, *args): ...
server = http.server.HTTPServer(('127.0.0.1', 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f'http://127.0.0.1:{server.server_port}', timeout=10).read())
server.shutdown()
server.server_close()
### has chances of its own [differs]
import os, random, secrets, uuid
print(random.random(), random.getrandbits(64), secrets.token_hex(), uuid.uuid4(), uuid.uuid1(), os.urandom(8))
### has temporary names of its own [differs]
import tempfile
print(next(tempfile._get_candidate_names()), tempfile.mktemp())
### has a key of its own for multiprocessing [differs]
import multiprocessing as m
print(bytes(m.current_process().authkey))
### has numpy's chances of its own [differs] [no plain]
import numpy
print(numpy.random.rand(), numpy.random.default_rng().random(), numpy.random.randint(1 << 60))
### repeats chances that are seeded
import random, numpy
random.seed(1)
numpy.random.seed(2)
print(random.random(), random.sample(range(9), 3), numpy.random.rand(), numpy.random.default_rng(3).random())
print(random.Random(4).random(), numpy.random.RandomState(5).rand(), numpy.random.permutation(5))
### computes with several threads of numpy
import numpy
a = numpy.arange(1_000_000.0).reshape(1000, 1000) % 7
print((a @ a).sum(), numpy.linalg.svd(a[:50, :50])[1][0].round(3), numpy.geterr())
print(numpy.array([1 / 3, 1e-300]), numpy.get_printoptions())
"""
