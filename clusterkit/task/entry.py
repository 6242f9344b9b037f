"""The first code of every task: ties it to the supervisor, arranges stack dumps, then is invisible.

Run by path, with the task's own interpreter, which may know nothing of clusterkit: standard library only.

    python entry.py PARENT STACKS_FD[,NAMESPACE_FD...] script|module|command TARGET [ARGS...]
    python entry.py PARENT SOCKET_FD serve|share OPTIONS

The namespaces are joined in their order, before anything else. The second is the start of a fork server, a run's own
or one that many runs share; each of its forks goes on from here as if it had been started in the first way.
"""

from __future__ import annotations

import sys

BEFORE = frozenset(sys.modules)  # what a plain start has imported too

import ctypes  # noqa: E402
import faulthandler  # noqa: E402
import fcntl  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
from collections.abc import Collection, Mapping, Sequence  # noqa: E402
from types import CodeType, ModuleType, TracebackType  # noqa: E402

ENTRY = os.path.realpath(__file__)
LOADED: dict[str, ModuleType] = {}
PR_SET_PDEATHSIG = 1
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)  # by Python
STACKS_SIGNAL = signal.SIGRTMIN + 9  # nobody's by convention; sent only where it is seen to be caught


def die_with_parent(parent: int) -> None:
    """Get SIGKILL when the supervisor's thread that started this process is gone; now, if it is gone already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def take_signals(kept: Collection[int] = IGNORED) -> None:
    """Take signals, but for those `kept`, by their default actions, whatever the caller ignores or blocks.

    SIGINT too until the program begins: it ends the task, and raises nothing in clusterkit's own code.
    """
    for number in signal.valid_signals().difference(kept):
        if signal.getsignal(number) in (signal.SIG_IGN, signal.default_int_handler):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def take_interrupts() -> None:
    """From now on SIGINT raises KeyboardInterrupt, unless something else was arranged."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def arrange_stack_dumps(fd: int) -> None:
    """On STACKS_SIGNAL, write every thread's stack to `fd`, also while the main thread is inside C code."""
    try:
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)  # the program's own get the numbers that they always get
        os.close(fd)
    except OSError:  # so many are not allowed
        os.set_inheritable(high := fd, False)
    faulthandler.register(STACKS_SIGNAL, file=high, all_threads=True)


def take_cores(env: Mapping[str, str]) -> None:
    """Run on this task's cores alone; what threads and children there will be do so too, since there is none yet."""
    if not (cores := env.get("CLUSTERKIT_CORES")):
        return
    try:
        os.sched_setaffinity(0, map(int, cores.split(",")))
    except OSError as error:  # they were taken away since the run began
        os.write(2, f"clusterkit: this task can't have the cores {cores}: {error.strerror}.\n".encode())
        os._exit(1)


def execute(words: Sequence[str], env: Mapping[str, str]) -> None:
    """Become another program."""
    try:
        os.execvpe(words[0], list(words), env)
    except OSError as error:
        os.write(2, f"{words[0]} can't be executed: {error.strerror}\n".encode())
        os._exit(1)


def run_script(path: str) -> None:
    """Run a file as `python FILE` does."""
    file_name = os.path.join(os.getcwd(), path)  # not normalized
    if is_archive(file_name):
        run_archive(file_name)
        return
    set_first_path(os.path.dirname(os.path.realpath(path)))
    main = fresh_main()
    main.__file__ = file_name
    main.__dict__["__cached__"] = None
    from importlib.machinery import SourceFileLoader, SourcelessFileLoader

    if path.endswith(".pyc"):
        main.__loader__ = loader = SourcelessFileLoader("__main__", file_name)
        code = loader.get_code("__main__")
    else:
        main.__loader__ = SourceFileLoader("__main__", file_name)
        code = compiled(path, file_name)
    if code is None:
        run_file(path, main)  # the interpreter has other words for what is wrong with a file than with a text
    else:
        exec(code, main.__dict__)


def compiled(path: str, name: str) -> CodeType | None:
    """The code of a program; None where it is none."""
    try:
        with open(path, "rb") as file:
            return compile(file.read(), name, "exec", dont_inherit=True)
    except OSError as error:
        print(f"{sys.executable}: can't open file {name!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        sys.exit(2)
    except (SyntaxError, ValueError):  # the latter for a null byte, up to Python 3.11.3
        return None


def run_file(path: str, main: ModuleType) -> None:
    """Read, compile and run a file with the very function that the interpreter calls for it."""
    libc, api = ctypes.CDLL(None), ctypes.pythonapi
    libc.fopen.restype = ctypes.c_void_p
    api.PyRun_FileExFlags.restype = ctypes.py_object
    file_input, close, scope = 257, 1, ctypes.py_object(main.__dict__)  # Python.h: Py_file_input
    stream = ctypes.c_void_p(libc.fopen(os.fsencode(path), b"rb"))
    api.PyRun_FileExFlags(stream, os.fsencode(str(main.__file__)), file_input, scope, scope, close, None)


def is_archive(path: str) -> bool:
    """Whether the import system can look into the file, as into what zipapp and pex make."""
    for hook in sys.path_hooks:
        try:
            hook(path)
            return True
        except ImportError:
            continue
    return False


def run_archive(path: str) -> None:
    """Run the `__main__` module in an archive, which comes first in `sys.path` whatever the interpreter's flags."""
    import runpy

    if getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, path)
    set_first_path(path)
    fresh_main()
    runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]


def run_module(name: str) -> None:
    """Run a module as `python -m NAME` does: with the very function that the interpreter calls for it."""
    import runpy

    set_first_path(os.getcwd())
    sys.argv[0] = "-m"
    fresh_main()
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]


def set_first_path(directory: str) -> None:
    """Put the program's directory where this file's is, unless the interpreter runs with -P, which has none."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = directory


def give_way(directory: str) -> None:
    """Forget the modules that a plain start does not have yet and that the program's directory has of its own."""
    ours = {name.partition(".")[0] for name in sys.modules.keys() - BEFORE}
    hidden = {name for name in ours if os.path.exists(os.path.join(directory, f"{name}.py"))}
    hidden |= {name for name in ours if os.path.exists(os.path.join(directory, name, "__init__.py"))}
    for name in [name for name in sys.modules if name.partition(".")[0] in hidden]:
        del sys.modules[name]


def fresh_main() -> ModuleType:
    """Put an empty `__main__` in this one's place."""
    import builtins

    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    if "__annotations__" in globals():  # as the interpreter has made it for this file, up to Python 3.13
        main.__dict__["__annotations__"] = {}  # noqa: RUF063 - a module's own, of which nothing else is made
    sys.modules["__main__"] = main
    return main


def without_this_file(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that is not of this file."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback


def run(how: str, target: str) -> None:
    """Run the program; show what it raised as a plain start shows it."""
    try:
        take_interrupts()
        run_module(target) if how == "module" else run_script(target)
        return
    except SystemExit:
        raise
    except BaseException as raised:
        error, traceback = raised, without_this_file(raised.__traceback__)
    remember(error, traceback)
    show(error, traceback)
    hook = getattr(sys, "excepthook", None)

    def already_shown(*_: object) -> None:
        remember(error, traceback)
        sys.excepthook = hook  # type: ignore[assignment]

    # Now the interpreter itself ends as it does after an uncaught exception, and dies of SIGINT after
    # KeyboardInterrupt.
    sys.excepthook = already_shown
    raise error


def remember(error: BaseException, traceback: TracebackType | None) -> None:
    """Set what the interpreter sets when nobody has caught an exception."""
    error.__traceback__ = traceback
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, traceback
    if sys.version_info >= (3, 12):
        sys.last_exc = error


def show(error: BaseException, traceback: TracebackType | None) -> None:
    """Do what the interpreter does with an exception that nobody has caught, also where the program's hook fails."""
    if not hasattr(sys, "excepthook"):
        print("sys.excepthook is missing", file=sys.stderr)
        sys.__excepthook__(type(error), error, traceback)
        return
    try:
        sys.excepthook(type(error), error, traceback)
    except SystemExit:
        raise
    except BaseException as raised:
        print("Error in sys.excepthook:", file=sys.stderr)
        raised.__traceback__ = without_this_file(raised.__traceback__)
        sys.__excepthook__(type(raised), raised, raised.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, traceback)


def main() -> None:
    """See the module's docstring."""
    parent, how, target = int(sys.argv[1]), sys.argv[3], sys.argv[4]
    is_server = how in ("serve", "share")
    stacks, *namespaces = map(int, sys.argv[2].split(","))
    take_signals(() if how == "command" else IGNORED)
    if namespaces:
        load("task/join").join_or_end(namespaces)
    if how != "share":
        die_with_parent(parent)
    if not is_server:
        take_cores(os.environ)
    if how == "command":
        os.close(stacks)
        execute(sys.argv[4:], os.environ)
    if is_server:
        how, target, stacks = serve(how, stacks, target)
    else:
        del sys.argv[:4]
    if names := os.environ.get("CLUSTERKIT_MENDS"):  # by the plan
        load("task/patches/hook").install(names.split(","), load)
    if not is_server:
        give_way(os.getcwd() if how == "module" else os.path.dirname(os.path.realpath(target)))
    sys.orig_argv[1:] = ["-m", *sys.argv] if how == "module" else sys.argv
    arrange_stack_dumps(stacks)
    run(how, target)


def serve(how: str, channel: int, options: str) -> tuple[str, str, int]:
    """Be a fork server; in each fork, return how to run what, and the descriptor of its stack dumps."""
    take_interrupts()  # what is imported may look at it
    server = load("warm/fork_server" if how == "serve" else "warm/warm_server")
    return tuple(server.serve(sys.modules[__name__], channel, options))


def load(name: str) -> ModuleType:
    """A file of clusterkit, such as `task/join`, by its path: it is no module of the task's. Once loaded, it stays."""
    if name in LOADED:
        return LOADED[name]
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, os.path.join(os.path.dirname(os.path.dirname(ENTRY)), f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = LOADED[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
