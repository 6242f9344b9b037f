"""`breakpoint()` in threads, in unusual places, and when its client leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import Up, wait_until
from tests.task.test_debug_socket import connected, messages

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]

HOLD = ("--breakpoints", "hold")
Start = Callable[..., Up]


def program(tmp_path: Path, *lines: str) -> Path:
    """A program of these lines."""
    (tmp_path / "program.py").write_text("\n".join([*lines, ""]))
    return tmp_path / "program.py"


class Prompt:
    """A client of the debugger's socket, at the prompt of a task's count-th hold."""

    def __init__(self, run: Up, count: int) -> None:
        run.wait_for("InDebugger", count=count)
        self._client = connected(run.run / "tasks/worker:0/debugger.sock")
        self._client.settimeout(30)
        self._stream = self._client.makefile("rb")
        self.read()

    def read(self, until: str | None = None) -> str:
        """Return the output up to this text, the next prompt, or the end."""
        printed = ""
        for message in messages(self._stream):
            printed += message.get("out", "")
            if "prompt" in message or "left" in message or (until is not None and until in printed):
                break
        return printed

    def tell(self, line: str) -> str:
        """Enter a line; return the output."""
        self.send(line=line)
        return self.read()

    def send(self, **message: object) -> None:
        """Send a message."""
        self._client.sendall(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        """Hang up."""
        self._stream.close()
        self._client.close()


@contextmanager
def prompt_of(run: Up, count: int = 1) -> Iterator[Prompt]:
    """Wait for the task's count-th hold, and return its prompt."""
    prompt = Prompt(run, count)
    try:
        yield prompt
    finally:
        prompt.close()


THREADS = (
    "import threading",
    "together = threading.Barrier(4)",
    "def work(number):",
    "    together.wait()",
    "    print(f'thread {number} begins')",
    "    breakpoint()",
    "    print(f'thread {number} ends')",
    "threads = [threading.Thread(target=work, args=[number]) for number in range(4)]",
    "for thread in threads:",
    "    thread.start()",
    "for thread in threads:",
    "    thread.join()",
)


def test_several_threads_call_the_first_breakpoint_at_once(up: Start, tmp_path: Path) -> None:
    """Each loads the debugger; nobody can connect, and all continue."""
    run = up("--workers", 1, program(tmp_path, *THREADS))
    assert run.wait(40) == 0
    assert [f"thread {number} ends" in run.output for number in range(4)] == [True] * 4, run.output
    assert run.output.count("and the task continues") == 1


def test_quitting_ignores_the_threads_that_wait_for_their_turn_too(up: Start, tmp_path: Path) -> None:
    """Even if they have called breakpoint() already."""
    run = up("--workers", 1, *HOLD, program(tmp_path, *THREADS))
    with prompt_of(run) as prompt:
        wait_until(lambda: all(f"thread {number} begins" in run.output for number in range(4)), 20, "all threads")
        prompt.tell("q")
    assert run.wait(40) == 0
    assert len(run.events("InDebugger")) == 1


def test_an_expression_at_the_prompt_does_not_stop_at_breakpoints(up: Start, tmp_path: Path) -> None:
    """As in pdb: the prompt stays at its place, and later commands work."""
    lines = (
        "import pdb, sys",
        "def five():",
        "    breakpoint()",
        "    return 5",
        "def fails():",
        "    try:",
        "        1 / 0",
        "    except ZeroDivisionError:",
        "        pdb.post_mortem()",
        "        return 'failed'",
        "def work(here):",
        "    breakpoint()",
        "    here += five()",
        "    return here",
        "print('result', work(3))",
    )
    run = up("--workers", 1, *HOLD, program(tmp_path, *lines))
    with prompt_of(run) as prompt:
        assert prompt.tell("p five()") == "5\n"
        assert prompt.tell("p fails()") == "'failed'\n"
        assert "work(3)" in prompt.tell("where")
        assert prompt.tell("!here = five() + 30") == ""
        assert prompt.tell("p here") == "35\n"
        prompt.tell("c")
    with prompt_of(run, 2) as prompt:  # the program's own call stops
        assert "return 5" in prompt.tell("list")
        prompt.tell("q")
    assert run.wait(40) == 0
    assert "result 40" in run.output


@pytest.mark.parametrize("options", [HOLD, ()])
def test_a_breakpoint_in_a_deleted_directory_holds_the_task(
    up: Start, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Also in code without a file; if nobody can connect, the task prints that."""
    lines = (
        "import os, tempfile",
        "os.chdir(tempfile.mkdtemp())",
        "os.rmdir(os.getcwd())",
        "exec(compile('breakpoint()\\nresult = 42', '<no file>', 'exec'))",
        "print(f'result {result}')",
    )
    run = up("--workers", 1, *options, program(tmp_path, *lines))
    if options:
        with prompt_of(run) as prompt:
            assert prompt.tell("p 40 + 2") == "42\n"
            prompt.tell("c")
    assert run.wait(40) == 0
    assert "result 42" in run.output
    assert options or "and the task continues" in run.output


def test_a_handler_that_the_program_sets_while_it_is_held_stays(up: Start, tmp_path: Path) -> None:
    """Any other handler is restored."""
    lines = (
        "import signal",
        "before = signal.getsignal(signal.SIGINT)",
        "breakpoint()",
        "print(f'kept {signal.getsignal(signal.SIGINT) is before}')",
        "breakpoint()",
        "signal.signal(signal.SIGINT, mine := lambda *_: None)",
        "print(f'own {signal.getsignal(signal.SIGINT) is mine}')",
        "breakpoint()",
        "print(f'still own {signal.getsignal(signal.SIGINT) is mine}')",
    )
    run = up("--workers", 1, *HOLD, program(tmp_path, *lines))
    with prompt_of(run) as prompt:
        prompt.tell("c")
    with prompt_of(run, 2) as prompt:
        prompt.tell("until 7")
        prompt.tell("c")
    with prompt_of(run, 3) as prompt:
        prompt.tell("c")
    assert run.wait(40) == 0
    assert [f"{what} True" in run.output for what in ("kept", "\u2502 own", "still own")] == [True] * 3


def test_no_stop_is_in_the_debugger_itself(up: Start, tmp_path: Path) -> None:
    """A breakpoint set at the prompt traces every call, also those in the debugger on the way to the next stop."""
    lines = (
        "import pdb",
        "def five():",
        "    return 5",
        "def fails():",
        "    try:",
        "        1 / 0",
        "    except ZeroDivisionError:",
        "        pdb.post_mortem()",
        "breakpoint()",
        "five()",
        "breakpoint()",
        "fails()",
        "five()",
        "print('end')",
    )
    file = program(tmp_path, *lines)
    run = up("--workers", 1, *HOLD, file)
    with prompt_of(run) as prompt:
        prompt.tell(f"b {file}:3")
        prompt.tell("c")
    for count in (2, 3, 4):
        with prompt_of(run, count) as prompt:
            prompt.tell("c")
    with prompt_of(run, 5) as prompt:
        prompt.tell("q")
    assert run.wait(40) == 0
    stops = [(event["file"].rpartition("/")[2], event["function"]) for event in run.events("InDebugger")]
    assert stops == [("program.py", where) for where in ("<module>", "five", "<module>", "fails", "five")]


def test_interrupts_work_after_a_debugger_inside_the_debugger(up: Start, tmp_path: Path) -> None:
    """The inner one handles SIGINT when it continues."""
    run = up("--workers", 1, *HOLD, program(tmp_path, "import time", "breakpoint()", "print('end')"))
    with prompt_of(run) as prompt:
        prompt.tell("debug sum([1])")
        assert "LEAVING RECURSIVE DEBUGGER" in prompt.tell("c")
        prompt.send(line="!print('sleeps'); time.sleep(600)")
        assert prompt.read(until="sleeps") == "sleeps\n"
        prompt.send(interrupt=True)
        assert "KeyboardInterrupt" in prompt.read()
        prompt.tell("c")
    assert run.wait(40) == 0
