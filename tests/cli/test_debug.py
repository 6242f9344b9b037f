"""Debugging tasks of a real run, through `clusterkit debug` on a terminal."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import CHILDREN, Up, wait_until
from tests.terminal import OnTerminal, on_terminal

pytestmark = [pytest.mark.process, pytest.mark.slow]

BREAKS = CHILDREN / "breaks.py"
HOLD = ("--breakpoints", "hold")
Start = Callable[..., Up]


def shown(text: str) -> str:
    """What a terminal shows, without the sequences of line editing."""
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]|\r|\x07", "", text)


def tell(debug: OnTerminal, line: str, answer: str, prompt: str = "(Pdb) ") -> str:
    """Type a line at the prompt; wait for the answer and the next prompt, and return what came."""
    before = len(debug.text)
    debug.press(line.encode() + b"\r")
    debug.read_until(lambda text: answer in shown(text[before:]) and shown(text).endswith(prompt))
    return shown(debug.text[before:])


def prompt_of(debug: OnTerminal, task: str) -> None:
    """Wait until the task's prompt is there."""
    debug.read_until(lambda text: shown(text).endswith(f"{task} (Pdb) "))


def last_exit(up: Up, task: str) -> tuple[int, int | None]:
    """The task's last attempt and its exit code."""
    ends = [one for one in up.result["attempts"] if one["task"] == task]
    return ends[-1]["attempt"], ends[-1]["exit"]["code"]


@pytest.mark.parametrize("how", ["breakpoint", "set_trace"])
def test_a_session_looks_steps_changes_and_continues(up: Start, home: Path, how: str) -> None:
    run = up("--workers", 1, *HOLD, BREAKS, "worker:0", 3, 6, how)
    event = run.wait_for("InDebugger")
    assert (event["function"], event["error"], Path(event["file"]).name) == ("step", "", "breaks.py")
    with on_terminal(home, "debug") as debug:
        prompt_of(debug, "worker:0")
        assert ("the header" in debug.text) == (how == "set_trace")
        where = tell(debug, "w", "train()")
        assert "entry.py" not in where
        assert "clusterkit" not in where.replace(str(BREAKS.parents[2]), "")
        tell(debug, "p loss", "0.5")
        tell(debug, "loss = 21", "")
        if sys.version_info >= (3, 13):  # where pdb stops at the call itself, not at the next line
            tell(debug, "n", "-> loss = loss * 2")
        tell(debug, "n", "-> return loss")
        tell(debug, "p loss", "42")
        tell(debug, "print('for', 'me')", "for me")
        tell(debug, "p 1 / 0", "ZeroDivisionError")
        tell(debug, "run", "clusterkit restart")
        tell(debug, "interact", "Statements work at the prompt")
        tell(debug, "p undefined_na\t", "NameError")
        tell(debug, "p numb\t", "3")  # completed to `number`
        debug.press(b"c\r")
        debug.read_until(lambda text: "worker:0 continues." in text)
        assert f"the run {run.run.name} is over." in debug.finish()
        assert debug.process.returncode == 0
    assert run.wait(20) == 0
    assert "step 3 loss 42" in run.output
    assert "worker:0 is waiting in the debugger at tests/children/breaks.py:2" in run.output
    assert "Connect with: clusterkit debug worker:0" in run.output
    assert [one["event"] for one in run.events() if "Debugger" in one["event"]] == ["InDebugger", "LeftDebugger"]
    assert not list(run.run.glob("tasks/*/debugger.sock"))
    assert (home / "debug-history").stat().st_mode & 0o777 == 0o600
    assert "p undefined_na" in (home / "debug-history").read_text()


@pytest.mark.parametrize("leave", ["ctrl-d", "killed", "hung-up", "EOF"])
def test_whoever_leaves_lets_the_run_continue(up: Start, home: Path, leave: str) -> None:
    run = up("--workers", 2, *HOLD, BREAKS, "worker:0", 2, 4)
    run.wait_for("InDebugger")
    with on_terminal(home, "debug", "worker:0") as debug:
        prompt_of(debug, "worker:0")
        if leave == "ctrl-d":
            debug.press(b"\x04")
            assert "worker:0 continues." in debug.finish()
            assert debug.process.returncode == 0
        elif leave == "killed":
            debug.process.send_signal(signal.SIGKILL)
        elif leave == "hung-up":
            debug.process.send_signal(signal.SIGHUP)
        else:
            debug.press(b"EOF\r")
        assert run.wait(20) == 0
    assert run.result["restarts"] == 0


def test_a_run_whose_job_is_not_known_yet_is_waited_for(up: Start, home: Path) -> None:
    run = up("--workers", 1, *HOLD, BREAKS, "worker:0", 2, 3)
    run.wait_for("InDebugger")
    job = run.run / "job.json"
    job.rename(job.with_name("later"))
    with on_terminal(home, "debug") as debug:
        with suppress(AssertionError):
            debug.read_until(lambda text: "waiting for" in text, deadline=2)
        job.with_name("later").rename(job)
        prompt_of(debug, "worker:0")
        debug.press(b"c\r")
        debug.finish()
    assert run.wait(20) == 0


def test_quitting_ignores_later_breakpoints_and_continuing_does_not(up: Start, home: Path) -> None:
    run = up("--workers", 1, *HOLD, BREAKS, "worker:0", 2, 6, "often")
    run.wait_for("InDebugger")
    with on_terminal(home, "debug") as debug:
        prompt_of(debug, "worker:0")
        for count in (2, 3):
            debug.press(b"c\r")
            debug.read_until(lambda text, count=count: shown(text).count("worker:0 (Pdb) ") == count)  # type: ignore[misc]
        debug.press(b"q\r")
        assert "its breakpoints are ignored from now on" in debug.finish()
    assert run.wait(20) == 0
    assert len(run.events("InDebugger")) == 3


def test_a_breakpoint_that_is_set_at_the_prompt_holds_the_task_again(up: Start, home: Path) -> None:
    run = up("--workers", 1, *HOLD, BREAKS, "worker:0", 2, 6)
    run.wait_for("InDebugger")
    with on_terminal(home, "debug") as debug:
        prompt_of(debug, "worker:0")
        line = next(n for n, text in enumerate(BREAKS.read_text().splitlines(), 1) if "return loss" in text)
        tell(debug, f"b {BREAKS}:{line}, number == 5", "Breakpoint 1 at")
        debug.press(b"c\r")
        debug.read_until(lambda text: shown(text).count("worker:0 (Pdb) ") == 3)
        tell(debug, "p number", "5")
        tell(debug, "cl 1", "Deleted breakpoint 1")
        debug.press(b"c\r")
        debug.finish()
    assert run.wait(20) == 0
    assert [one["line"] for one in run.events("InDebugger")][1] == line


def test_ctrl_c_interrupts_what_runs_and_drops_what_is_typed(up: Start, home: Path) -> None:
    run = up("--workers", 1, *HOLD, BREAKS, "worker:0", 2, 3)
    run.wait_for("InDebugger")
    with on_terminal(home, "debug") as debug:
        prompt_of(debug, "worker:0")
        debug.press(b"wait(6")
        debug.read_until(lambda text: "wait(6" in shown(text))
        for _ in range(10):  # Python does not see one that comes while it takes in another key
            debug.press(b"\x03")
            with suppress(AssertionError):
                debug.read_until(lambda text: shown(text).count("worker:0 (Pdb) ") > 1, deadline=2)
                break
        debug.press(b"wait(600)\r")
        debug.read_until(lambda text: "waiting" in text)
        debug.press(b"\x03")
        debug.read_until(lambda text: "KeyboardInterrupt" in text and shown(text).endswith("(Pdb) "))
        tell(debug, "p loss", "0.5")
        debug.press(b"c\r")
        debug.finish()
    assert run.wait(20) == 0
    assert last_exit(run, "worker:0") == (1, 0)


def test_a_byte_that_is_not_utf_8_is_refused_at_the_prompt(up: Start, home: Path) -> None:
    run = up("--workers", 1, *HOLD, BREAKS, "worker:0", 2, 3)
    run.wait_for("InDebugger")
    with on_terminal(home, "debug", PYTHONIOENCODING="utf-8:strict") as debug:
        prompt_of(debug, "worker:0")
        debug.press(b"p '\xff'\r")
        debug.read_until(lambda text: "That is not UTF-8 text." in text and shown(text).endswith("(Pdb) "))
        tell(debug, "p loss", "0.5")
        debug.press(b"c\r")
        debug.finish()
    assert run.wait(20) == 0


def test_two_tasks_wait_and_the_user_chooses(up: Start, home: Path) -> None:
    run = up("--workers", 3, *HOLD, BREAKS, "worker:1,worker:2", 2, 4)
    run.wait_for("InDebugger", count=2)
    with on_terminal(home, "debug") as debug:
        debug.read_until(lambda text: "Which task? [worker:1] " in text)
        assert "worker:2 is waiting in the debugger at tests/children/breaks.py:" in debug.text
        debug.press(b"worker:7\r")
        debug.read_until(lambda text: "worker:7 is not one of them." in text)
        debug.press(b"worker:2\r")
        prompt_of(debug, "worker:2")
        debug.press(b"c\r")
        prompt_of(debug, "worker:1")  # the next one that waits
        debug.press(b"c\r")
        debug.finish()
    assert run.wait(20) == 0


def test_one_terminal_at_a_time(up: Start, home: Path, ck: Callable[..., object]) -> None:
    run = up("--workers", 1, *HOLD, BREAKS, "worker:0", 2, 3)
    run.wait_for("InDebugger")
    with on_terminal(home, "debug") as debug, on_terminal(home, "debug") as second:
        debug.read_until(lambda text: True)
        second.read_until(lambda text: True)
        both = [debug, second]
        wait_until(lambda: [one._read(0.1) for one in both] and any("Another terminal" in one.text for one in both), 20,
                   "that one is refused")  # fmt: skip
        first = next(one for one in both if "Another terminal" not in one.text)
        refused = next(one for one in both if one is not first)
        refused.finish()
        assert refused.process.returncode == 1
        first.press(b"c\r")
        first.finish()
    assert run.wait(20) == 0


def test_post_mortem_holds_a_task_that_raises_and_then_it_fails_as_always(up: Start, home: Path) -> None:
    run = up("--workers", 1, "--pdb", "--restart", "never", BREAKS, "worker:0", 2, 3, "raise")
    event = run.wait_for("InDebugger")
    assert event["error"] == "ValueError: the loss is nan"
    assert not run.events("Exited")
    with on_terminal(home, "debug") as debug:
        prompt_of(debug, "worker:0")
        tell(debug, "p number, loss", "(2, 0.5)")
        tell(debug, "up", "train()")
        debug.press(b"q\r")
        debug.finish()
    assert run.wait(20) == 1
    assert last_exit(run, "worker:0") == (1, 1)
    assert "ValueError: the loss is nan" in run.output
    assert "after ValueError: the loss is nan. Connect with" in run.output


def test_a_thread_is_debugged_too(up: Start, home: Path) -> None:
    run = up("--workers", 1, *HOLD, BREAKS, "worker:0", 2, 4, "thread")
    run.wait_for("InDebugger")
    with on_terminal(home, "debug") as debug:
        prompt_of(debug, "worker:0")
        debug.press(b"c\r")
        debug.finish()
    assert run.wait(20) == 0


@pytest.mark.parametrize(
    ("options", "how", "said"),
    [
        ((), "often", "nobody can connect, since the run has no terminal"),
        (("--breakpoints", "skip"), "often", None),
        (HOLD, "child", "this is a child process of the task"),
        (("--hosts", "1"), "often", "on several hosts"),
    ],
)
def test_where_nobody_can_connect_the_task_says_so_once_and_continues(
    up: Start, options: tuple[str, ...], how: str, said: str | None
) -> None:
    run = up("--workers", 1, *options, BREAKS, "worker:0", 2, 4, how)
    assert run.wait(40) == 0
    assert run.output.count("and the task continues") == (0 if said is None else 1)
    assert said is None or said in run.output
    assert not run.events("InDebugger")


def test_on_a_terminal_breakpoints_hold_without_an_option(home: Path) -> None:
    with on_terminal(home, "up", "--run-id", "r", BREAKS, "worker:0", "2", "3") as up:
        up.read_until(lambda text: "Connect with: clusterkit debug worker:0" in text.replace("\n", ""))
        with on_terminal(home, "ps", columns=200) as ps:
            assert re.search(r"worker:0 +running \(debugger: breaks.py:\d+\)", ps.finish())
        with on_terminal(home, "debug", "r", "worker:0") as debug:
            prompt_of(debug, "worker:0")
            debug.press(b"c\r")
            debug.finish()
        up.finish()
        assert up.process.returncode == 0


def test_pythonbreakpoint_is_respected(up: Start) -> None:
    run = up("--workers", 1, "--env", "PYTHONBREAKPOINT=0", *HOLD, BREAKS, "worker:0", 2, 4)
    assert run.wait(20) == 0
    assert not run.events("InDebugger")


@pytest.mark.parametrize("end", ["down", "kill", "ctrl-c"])
def test_a_held_task_ends_as_always(up: Start, home: Path, ck: Callable[..., object], end: str) -> None:
    run = up("--workers", 2, "--restart", "never", *HOLD, BREAKS, "worker:0", 2, 3)
    run.wait_for("InDebugger")
    with on_terminal(home, "debug") as debug:
        prompt_of(debug, "worker:0")
        if end == "ctrl-c":
            run.signal(signal.SIGINT)
        else:
            ck(end, *(["worker:0"] if end == "kill" else []))
        text = debug.finish()
        assert "worker:0 has ended." in text
        assert "is over." in text
    assert run.wait(20) == {"down": 143, "kill": 1, "ctrl-c": 130}[end]
