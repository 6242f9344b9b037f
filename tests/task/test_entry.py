"""The entry is invisible to the program it starts, writes stacks on request, and dies with its parent."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clusterkit.backends.local.family import spawn
from clusterkit.job.plan import Start, TaskPlan, attempt_environment
from clusterkit.system import procfs
from clusterkit.system.process import AttemptChild, exit_of, reap
from clusterkit.task import entry as entry_module
from clusterkit.task.entry import ENTRY, STACKS_SIGNAL
from clusterkit.words.model import ProgramKind, Task, TaskType
from clusterkit.words.outcome import Exit
from tests.children.plain import FILES, PROGRAMS
from tests.support import CHILDREN, wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(60), pytest.mark.slow]

ENV = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
Finished = tuple[Exit, bytes]


def start(how: ProgramKind, target: str, *args: str, cwd: Path) -> AttemptChild:
    """Start a program as the supervisor does; its output goes to `entry.txt`, its stacks to `stacks.txt`."""
    plan = TaskPlan(Task(TaskType.WORKER, 0), how, sys.executable, target, args, str(cwd), ENV)
    with (cwd / "entry.txt").open("wb") as out, (cwd / "stacks.txt").open("ab") as stacks:
        process = spawn(Start(plan, attempt_environment(os.environ, plan, 1, ""), out.fileno(), stacks.fileno()))
    # Nobody runs out of memory here: where the kernel's log is not readable, a kill in another test would count.
    return AttemptChild(process.pid, os.pidfd_open(process.pid), "", sys.maxsize, process)


def finish(child: AttemptChild, cwd: Path) -> Finished:
    """Wait for the end; return the exit status and the output."""
    select.select([child.pidfd], [], [])
    ended = exit_of(child)
    assert ended is not None
    reap(child)
    return ended, (cwd / "entry.txt").read_bytes()


def through_the_entry(how: ProgramKind, target: str, *args: str, cwd: Path) -> Finished:
    """Run a program as the supervisor does."""
    return finish(start(how, target, *args, cwd=cwd), cwd)


def plainly(how: ProgramKind, target: str, *args: str, cwd: Path) -> Finished:
    """Run a program as a user does."""
    words = ["-m", target] if how is ProgramKind.MODULE else [target]
    with (cwd / "plain.txt").open("wb") as out:
        code = subprocess.call(
            [sys.executable, *words, *args], stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=cwd,
            env={**os.environ, **ENV}, start_new_session=True,
        )  # fmt: skip
    ended = Exit(code=code) if code >= 0 else Exit(signal=-code)
    return ended, (cwd / "plain.txt").read_bytes()


def same(how: ProgramKind, target: str, *args: str, cwd: Path) -> Finished:
    """Run a program in both ways, check that the results are equal, and return them. Only a crash says more: where."""
    plain = plainly(how, target, *args, cwd=cwd)
    ended, output = through_the_entry(how, target, *args, cwd=cwd)
    said, crash, stack = output.partition(b"Fatal Python error: ")
    assert (ended, said) == plain
    assert bool(crash) == (ended.signal in (signal.SIGABRT, signal.SIGSEGV))
    assert not crash or b'File "' in stack
    return plain


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with the modules that the programs import."""
    for name, source in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)
    return tmp_path


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_script_notices_no_difference(name: str, here: Path) -> None:
    """Output, to the byte, and exit status are those of `python program.py`."""
    encoding = "latin-1" if "latin-1" in PROGRAMS[name] else "utf-8"
    (here / "program.py").write_bytes(PROGRAMS[name].encode(encoding))
    same(ProgramKind.SCRIPT, "program.py", "--flag", "a word", "", "-m", cwd=here)


# Patched functions are called in each part of it.
THROUGH_PATCHES = """
import logging
import signal
import threading
import traceback
def bad(number):
    signal.signal(number, print)


def caught(number):
    try:
        bad(number)
    except ValueError as error:
        return error


thread = threading.Thread(target=bad, args=(666,))
thread.start()
thread.join()
traceback.print_stack()
logging.warning("stack", stack_info=True)
try:
    bad(777)
except ValueError as error:
    traceback.print_exc()
    logging.exception("again")
    raise ExceptionGroup("two", [caught(888), caught(999)]) from error
"""


@pytest.mark.parametrize(("how", "target"), [(ProgramKind.SCRIPT, "program.py"), (ProgramKind.MODULE, "program")])
def test_a_traceback_has_no_frame_of_a_patch(
    how: ProgramKind, target: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor have those of the exceptions that led to it, of a group's parts, and what the program itself prints."""
    monkeypatch.setitem(ENV, "CLUSTERKIT_PATCHES", "sigterm,breakpoints,tracebacks")
    (here / "program.py").write_text(THROUGH_PATCHES)
    assert same(how, target, cwd=here)[1].count(b"in bad") == 6


MODULES = ["pkg.mod", "pkg", "pkg.fails", "pkg.broken", "pkg.pool", "pkg.leaves", "pkg.gone", "gone"]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_notices_no_difference(module: str, here: Path) -> None:
    """Output and exit status are those of `python -m module`, relative imports included."""
    same(ProgramKind.MODULE, module, "--flag", "a word", cwd=here)


def test_a_script_elsewhere_notices_no_difference(here: Path) -> None:
    """A relative path, an absolute one and a symbolic link lead to the same `sys.path` and `__file__`."""
    deep = here / "some" / "where"
    deep.mkdir(parents=True)
    (deep / "program.py").write_text("import sys\nprint(sys.argv, sys.path, __file__)\n1 / 0\n")
    (here / "link.py").symlink_to(deep / "program.py")
    for target in ("some/where/program.py", "./some/../some/where//program.py", str(deep / "program.py"), "link.py"):
        same(ProgramKind.SCRIPT, target, cwd=here)


def test_a_missing_script_is_reported_as_python_reports_it(here: Path) -> None:
    """With exit code 2 and the interpreter's message."""
    assert same(ProgramKind.SCRIPT, "gone.py", cwd=here)[0] == Exit(code=2)


def test_an_archive_runs_as_python_runs_it(here: Path) -> None:
    """A zip file with a `__main__.py`, as zipapp and pex make it, is a program too."""
    with zipfile.ZipFile(here / "app.pyz", "w") as archive:
        archive.writestr(
            "__main__.py", "import inside, sys\nprint(inside.x, __name__, __file__, sys.argv, sys.path)\n1 / 0\n"
        )
        archive.writestr("inside.py", "x = 5\n")
    assert same(ProgramKind.SCRIPT, "app.pyz", "a", cwd=here)[1].startswith(b"5 ")


def test_a_command_is_started_as_it_is(here: Path) -> None:
    """It gets its arguments and no extra descriptor; one that can't be executed fails with a clear message."""
    script = 'echo "$@"; for fd in 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$fd ] && echo $fd; done; exit 3'
    ended, output = through_the_entry(ProgramKind.COMMAND, "sh", "-c", script, "sh", "a b", "c", cwd=here)
    assert (ended, output) == (Exit(code=3), b"a b c\n")
    (here / "broken").write_text("#!/no/such/interpreter\n")
    (here / "broken").chmod(0o755)
    ended, output = through_the_entry(ProgramKind.COMMAND, "./broken", cwd=here)
    assert not ended.ok
    assert b"./broken can't be executed" in output
    assert b"Traceback" not in output


@pytest.mark.parametrize("how", ["read", "sleep", "spin"])
def test_stacks_are_written_on_request_and_the_program_continues(how: str, tmp_path: Path) -> None:
    """Also while the main thread runs C code, which is not disturbed."""
    os.mkfifo(tmp_path / "pipe")
    child = start(ProgramKind.SCRIPT, str(CHILDREN / "busy.py"), how, cwd=tmp_path)
    wait_until(lambda: b"busy" in (tmp_path / "entry.txt").read_bytes(), 10, "the program runs")
    wait_until(lambda: procfs.has_handler(child.pid, STACKS_SIGNAL), 10, "the entry catches the signal")
    os.kill(child.pid, STACKS_SIGNAL)
    stacks = wait_until(lambda: _whole(tmp_path / "stacks.txt"), 10, "both stacks")
    assert "in busily_" + how in stacks
    assert "in a_thread" in stacks
    assert procfs.stat(child.pid) is not None
    (tmp_path / "pipe.done").touch()
    if how == "read":
        (tmp_path / "pipe").write_bytes(b"enough")
    assert finish(child, tmp_path) == (Exit(code=0), b"busy\ndone\n")


def _whole(file: Path) -> str | None:
    text = file.read_text()
    return text if "most recent call first" in text and "in a_thread" in text and "in busily_" in text else None


def test_a_task_dies_with_its_parent(tmp_path: Path) -> None:
    """The kernel ends the task when the process that started it is killed."""
    words = [sys.executable, str(CHILDREN / "parent.py"), ENTRY, str(CHILDREN / "busy.py")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=tmp_path) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not procfs.is_zombie(pid)
        parent.kill()
    wait_until(lambda: procfs.is_zombie(pid), 10, "the task is gone")


def test_a_task_dies_if_its_parent_is_gone_already(tmp_path: Path) -> None:
    """If its parent is not the expected one, the task ends."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    program = tmp_path / "program.py"
    program.write_text("print('ran')\n")
    with (tmp_path / "stacks.txt").open("wb") as stacks:
        words = [sys.executable, ENTRY, str(gone.pid), str(stacks.fileno()), "script", str(program)]
        ran = subprocess.run(words, pass_fds=(stacks.fileno(),), capture_output=True)
    assert (ran.returncode, ran.stdout) == (-signal.SIGKILL, b"")


@pytest.mark.parametrize("flag", ["-I", "-P"])
def test_an_interpreter_with_a_safe_path_keeps_it(flag: str, here: Path) -> None:
    """If the interpreter does not put the program's directory first, neither does the entry."""
    (here / "program.py").write_text("import sys\nprint(sys.path, sys.argv)\n")
    with (here / "stacks.txt").open("wb") as stacks:
        entry = [ENTRY, str(os.getpid()), str(stacks.fileno()), "script"]
        python, fds = [sys.executable, flag], (stacks.fileno(),)
        plain = subprocess.run([*python, "program.py"], cwd=here, capture_output=True)
        through = subprocess.run([*python, *entry, "program.py"], cwd=here, pass_fds=fds, capture_output=True)
    assert (through.returncode, through.stdout) == (plain.returncode, plain.stdout)


def test_threads_that_load_a_file_at_once_all_get_the_same_complete_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when several threads call the first breakpoint."""
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "slow.py").write_text("import time\n\ntime.sleep(0.2)\ncomplete = object()\n")
    monkeypatch.setattr(entry_module, "ENTRY", str(tmp_path / "task" / "entry.py"))
    monkeypatch.setattr(entry_module, "LOADED", {})
    together = threading.Barrier(4)

    def load(_: int) -> object:
        together.wait(10)
        return entry_module.load("room/slow").complete

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(load, range(4)))) == 1
