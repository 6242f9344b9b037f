"""The entry point of every task: makes the process die with its parent, installs stack dumps, and runs the program.

The program then runs as if `python` had started it. The task's interpreter runs this file by path. The file imports
only the standard library, since clusterkit need not be installed for that interpreter.

    python entry.py PARENT STACKS_FD[,NAMESPACE_FD...] script|module|command TARGET [ARGS...]
    python entry.py PARENT SOCKET_FD serve|share OPTIONS

The first form starts a task, which first joins the namespaces, in order. The second form starts a fork server: that of
one run (`serve`), or a warm server that many runs share (`share`). Its forks continue in `main` like any other task.
"""

from __future__ import annotations

import sys

PLAIN_MODULES = frozenset(sys.modules)  # the modules that the interpreter imports at every start

import ctypes  # noqa: E402
import faulthandler  # noqa: E402
import fcntl  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
from collections.abc import Collection, Mapping, Sequence  # noqa: E402
from types import CodeType, ModuleType, TracebackType  # noqa: E402

ENTRY = os.path.realpath(__file__)
OURS = tuple(os.path.join(os.path.dirname(path), "") for path in (__file__, ENTRY))  # this directory, and its real path
LOADED: dict[str, ModuleType] = {}
PR_SET_PDEATHSIG = 1
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)  # the signals that Python ignores when it starts
STACKS_SIGNAL = signal.SIGRTMIN + 9  # a signal without conventional use, sent only to processes that handle it


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when the thread that started it ends. Die now if process `parent` has ended."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def reset_signals(still_ignored: Collection[int] = IGNORED) -> None:
    """Unblock all signals. Reset ignored signals, except those in `still_ignored`, to their default actions.

    Until the program starts, SIGINT ends the task instead of raising KeyboardInterrupt in clusterkit's code.
    """
    for number in signal.valid_signals().difference(still_ignored):
        if signal.getsignal(number) in (signal.SIG_IGN, signal.default_int_handler):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def restore_interrupts() -> None:
    """Make SIGINT raise KeyboardInterrupt, as in a plain start, unless SIGINT has a handler or is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def install_stack_dumps(fd: int) -> None:
    """Dump all threads' stacks to `fd` on STACKS_SIGNAL, even during C code, and one stack to stderr on a crash."""
    try:
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)  # keeps the low numbers free for the program
        os.close(fd)
    except OSError:  # the limit on descriptors is lower than 100
        os.set_inheritable(high := fd, False)
    faulthandler.register(STACKS_SIGNAL, file=high, all_threads=True)
    if not faulthandler.is_enabled():
        faulthandler.enable(file=2, all_threads=False)


def pin_to_cores(env: Mapping[str, str]) -> None:
    """Restrict this process, and the threads and children that it starts later, to the task's cores."""
    if not (cores := env.get("CLUSTERKIT_CORES")):
        return
    try:
        os.sched_setaffinity(0, map(int, cores.split(",")))
    except OSError as error:  # the cores have become unavailable since the run began
        os.write(2, f"clusterkit: this task can't run on the cores {cores}: {error.strerror}.\n".encode())
        os._exit(1)


def exec_command(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Replace this process by a command; exit with a message if the command can't be executed."""
    try:
        os.execvpe(argv[0], list(argv), env)
    except OSError as error:
        os.write(2, f"{argv[0]} can't be executed: {error.strerror}\n".encode())
        os._exit(1)


def run_script(path: str) -> None:
    """Run a file or archive as `python FILE` does."""
    file_name = os.path.join(os.getcwd(), path)  # kept unnormalized, as the interpreter does for `__file__`
    if is_archive(file_name):
        if getattr(sys.flags, "safe_path", False):  # even with -P, an archive is the first entry of `sys.path`
            sys.path.insert(0, file_name)
        run_module("__main__", file_name, sys.argv[0])
        return
    from importlib.machinery import SourceFileLoader, SourcelessFileLoader

    set_first_path(os.path.dirname(os.path.realpath(path)))
    main = fresh_main()
    main.__file__ = file_name
    main.__dict__["__cached__"] = None
    if path.endswith(".pyc"):
        main.__loader__ = loader = SourcelessFileLoader("__main__", file_name)
        code = loader.get_code("__main__")
    else:
        main.__loader__ = SourceFileLoader("__main__", file_name)
        code = compile_file(path, file_name)
    if code is None:
        run_file(path, main)  # raises the interpreter's own SyntaxError, whose text differs from that of `compile`
    else:
        exec(code, main.__dict__)


def compile_file(path: str, name: str) -> CodeType | None:
    """Compile a program; return None if the code is invalid. If the file can't be read, exit like the interpreter."""
    try:
        with open(path, "rb") as file:
            return compile(file.read(), name, "exec", dont_inherit=True)
    except OSError as error:
        print(f"{sys.executable}: can't open file {name!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        sys.exit(2)
    except (SyntaxError, ValueError):  # ValueError for a null byte, up to Python 3.11.3
        return None


def run_file(path: str, main: ModuleType) -> None:
    """Read, compile and run a file with the C function that the interpreter uses."""
    libc, api = ctypes.CDLL(None), ctypes.pythonapi
    libc.fopen.restype = ctypes.c_void_p
    api.PyRun_FileExFlags.restype = ctypes.py_object
    file_input, close, scope = 257, 1, ctypes.py_object(main.__dict__)  # Py_file_input is 257 in Python.h
    stream = ctypes.c_void_p(libc.fopen(os.fsencode(path), b"rb"))
    api.PyRun_FileExFlags(stream, os.fsencode(str(main.__file__)), file_input, scope, scope, close, None)


def is_archive(path: str) -> bool:
    """Return whether the file is an archive from which Python can import modules, such as a zipapp or a pex file."""
    for hook in sys.path_hooks:
        try:
            hook(path)
            return True
        except ImportError:
            continue
    return False


def run_module(name: str, place: str, shown: str = "-m") -> None:
    """Run a module like `python -m NAME`, or the module `__main__` of an archive like `python ARCHIVE`."""
    import runpy

    set_first_path(place)
    sys.argv[0] = shown
    fresh_main()
    runpy._run_module_as_main(name, shown == "-m")  # type: ignore[attr-defined]


def set_first_path(directory: str) -> None:
    """Replace the first entry of `sys.path`, this file's directory, by `directory`. With -P, there is no such entry."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = directory


def forget_shadowed_modules(directory: str) -> None:
    """Remove modules that this file has imported from `sys.modules` if `directory` has modules of the same names."""
    ours = {name.partition(".")[0] for name in sys.modules.keys() - PLAIN_MODULES}
    hidden = {name for name in ours if os.path.exists(os.path.join(directory, f"{name}.py"))}
    hidden |= {name for name in ours if os.path.exists(os.path.join(directory, name, "__init__.py"))}
    for name in [name for name in sys.modules if name.partition(".")[0] in hidden]:
        del sys.modules[name]


def fresh_main() -> ModuleType:
    """Replace the module `__main__` by an empty one for the program, and make SIGINT raise KeyboardInterrupt."""
    restore_interrupts()
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    if "__annotations__" in globals():  # up to Python 3.13, the interpreter creates `__annotations__`
        main.__dict__["__annotations__"] = {}  # noqa: RUF063 - the initial value, before any annotation is executed
    sys.modules["__main__"] = main
    return main


def hide_own_frames(error: BaseException) -> None:
    """Remove clusterkit's frames from the tracebacks of an exception, and of its causes, contexts and group members."""
    pending, seen = [error], set[int]()
    while pending:
        exc = pending.pop()
        seen.add(id(exc))
        frames, traceback = list[TracebackType](), exc.__traceback__
        while traceback is not None:
            frames += [] if traceback.tb_frame.f_code.co_filename.startswith(OURS) else [traceback]
            traceback = traceback.tb_next
        for frame, following in zip(frames, [*frames[1:], None], strict=False):
            frame.tb_next = following
        BaseException.with_traceback(exc, frames[0] if frames else None)
        others = (exc.__cause__, exc.__context__, *(exc.exceptions if isinstance(exc, BaseExceptionGroup) else ()))
        pending += [other for other in others if other is not None and id(other) not in seen]


def run(how: str, target: str) -> None:
    """Run the program; print an uncaught exception as the interpreter would."""
    try:
        run_module(target, os.getcwd()) if how == "module" else run_script(target)
        return
    except SystemExit:
        raise
    except BaseException as raised:
        hide_own_frames(error := raised)
    set_last_exception(error, traceback := error.__traceback__)
    show(error, traceback)
    hook = getattr(sys, "excepthook", None)

    def already_shown(*_: object) -> None:
        set_last_exception(error, traceback)
        sys.excepthook = hook  # type: ignore[assignment]

    # Raise the error again, so that the interpreter sets the usual exit code, or dies by SIGINT if it was interrupted.
    sys.excepthook = already_shown
    raise error


def set_last_exception(error: BaseException, traceback: TracebackType | None) -> None:
    """Set `sys.last_value` and related variables, as the interpreter does for an uncaught exception."""
    BaseException.with_traceback(error, traceback)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, traceback
    if sys.version_info >= (3, 12):
        sys.last_exc = error


def show(error: BaseException, traceback: TracebackType | None) -> None:
    """Call `sys.excepthook` for an uncaught exception, and handle exceptions of the hook, as the interpreter does."""
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
        hide_own_frames(raised)
        sys.__excepthook__(type(raised), raised, raised.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, traceback)


def main() -> None:
    parent, how, target = int(sys.argv[1]), sys.argv[3], sys.argv[4]
    is_server = how in ("serve", "share")
    stacks, *namespaces = map(int, sys.argv[2].split(","))
    reset_signals(() if how == "command" else IGNORED)
    if namespaces:
        load("task/join").join_or_end(namespaces)
    if how != "share":
        die_with_parent(parent)
    if not is_server:
        pin_to_cores(os.environ)
    if how == "command":
        os.close(stacks)
        exec_command(sys.argv[4:], os.environ)
    if is_server:
        how, target, stacks = serve(how, stacks, target)
    else:
        del sys.argv[:4]
    if names := os.environ.get("CLUSTERKIT_PATCHES"):  # set by the task's plan
        load("task/patches/hook").install(names.split(","), load)
    if not is_server:
        forget_shadowed_modules(os.getcwd() if how == "module" else os.path.dirname(os.path.realpath(target)))
    sys.orig_argv[1:] = ["-m", *sys.argv] if how == "module" else sys.argv
    install_stack_dumps(stacks)
    run(how, target)


def serve(how: str, channel: int, options: str) -> tuple[str, str, int]:
    """Run a fork server. Only its forks return: the program's kind and target, and the descriptor for stack dumps."""
    restore_interrupts()  # before the server imports modules, which may check the handler of SIGINT
    server = load("warm/fork_server" if how == "serve" else "warm/warm_server")
    return tuple(server.serve(sys.modules[__name__], channel, options))


def load(name: str) -> ModuleType:
    """Load a file of clusterkit, such as `task/join`, by its path and only once; do not add it to `sys.modules`."""
    if name in LOADED:
        return LOADED[name]
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(name, os.path.join(os.path.dirname(os.path.dirname(ENTRY)), f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return LOADED.setdefault(name, module)  # another thread may have loaded the file in the meantime


if __name__ == "__main__":
    main()
