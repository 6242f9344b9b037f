"""The user's side of the debugger: finds a waiting task and shows its prompt, with line editing and history."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from clusterkit.cli.snapshot import RunSnapshot
from clusterkit.cli.terminal import echo, say
from clusterkit.store.debugging import DebuggerConnection, connect
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.text.printable import printable
from clusterkit.text.spelling import listed
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.model import Task

CHECK_EVERY = 0.1  # seconds between checks for a task that is waiting in the debugger
LONGEST_HISTORY = 1000  # the maximum number of lines in the history file
DELIMITERS = " \t\n`@#$%^&*()=+[{]}\\|;:'\",<>?"  # characters that separate words for completion, as in pdb


class DebugConsole:
    """Connects to one task after another, until the user leaves or the run is over."""

    def __init__(self, run: RunDirectory, tasks: Sequence[Task]) -> None:
        self._run = run
        self._tasks = tasks
        self._snapshot = RunSnapshot(run)
        self._has_told = False

    def serve(self) -> int:
        """Run the session; return the exit code.

        Raises ClusterkitError if several tasks are waiting and there is no user at a terminal to choose one.
        """
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # `read_line` rejects input that is not UTF-8
        with history():
            try:
                while self._snapshot.live:
                    if (found := self._find()) is None:
                        self._wait()
                    elif not DebuggerPrompt(*found).run():
                        return 0
                    self._snapshot.refresh()
            except KeyboardInterrupt:
                echo("", err=True)
                return 0
        say(f"the run {self._run.run_id} is over.")
        return 0

    def _find(self) -> tuple[Task, DebuggerConnection] | None:
        """Return a task that is waiting in the debugger, with a connection to it; None if no task is waiting yet."""
        status = self._snapshot.status.tasks
        waiting = {task: place for task in self._tasks if (place := status[task].debugger)}
        waiting = {task: place for task, place in waiting.items() if self._run.debugger(task).exists()}
        task = next(iter(waiting), None) if len(waiting) < 2 else self._choose(waiting)
        connection = None if task is None else connect(self._run, task)
        if task is None or connection is None:
            return None
        self._has_told = False
        return task, connection

    def _choose(self, waiting: dict[Task, str]) -> Task:
        if not sys.stdin.isatty():
            how = f"Name one: clusterkit debug {next(iter(waiting))}"
            raise ClusterkitError(f"{listed(waiting)} are waiting in the debugger. {how}")
        for task, place in waiting.items():
            echo(f"{task} is waiting in the debugger at {place}.")
        first = next(iter(waiting))
        while True:
            try:
                word = read_line(f"Which task? [{first}] ").strip()
            except EOFError:
                raise KeyboardInterrupt from None
            named = {str(task): task for task in waiting}.get(word or str(first))
            if named is not None:
                return named
            echo(f"{word} is not one of them.")

    def _wait(self) -> None:
        if not self._has_told:
            self._has_told = True
            whose = " or ".join(map(str, self._tasks)) if len(self._tasks) < 4 else "a task"
            say(f"waiting for {whose} to stop in the debugger. Ctrl-C ends this command.")
        time.sleep(CHECK_EVERY)


class DebuggerPrompt:
    """One task's debugger prompt, from the task's stop in the debugger until the task continues."""

    def __init__(self, task: Task, connection: DebuggerConnection) -> None:
        self._task = task
        self._connection = connection
        self._interrupts = 0  # the number of Ctrl-C presses since the task's last message

    def run(self) -> bool:
        """Run the prompt; return whether to wait for the next task.

        Raises ClusterkitError if another terminal is already connected to the task.
        """
        set_completer(self._connection)
        signal.signal(signal.SIGINT, self._interrupted)
        try:
            message = self._next()
            if message is None:  # the task has just continued
                return True
            while message is not None:
                if message.get("busy"):
                    raise ClusterkitError(f"Another terminal is connected to {self._task}.")
                if "left" in message:
                    return self._print_end(str(message["left"]))
                if "out" in message:
                    echo(message["out"], nl=False)
                elif "prompt" in message and not self._answer(str(message["prompt"])):
                    return False
                message = self._next()
            echo(f"{self._task} has ended.")
            return True
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._connection.close()

    def _interrupted(self, number: int, frame: object) -> None:
        """Handle Ctrl-C: at the prompt, drop the line; otherwise, interrupt the task.

        A second Ctrl-C before the task's next message ends the command.
        """
        if self._connection.is_prompting:
            self._connection.is_prompting = False
            raise KeyboardInterrupt
        # The connection sent this SIGINT when it ended, or the user pressed Ctrl-C at that moment.
        if self._connection.is_over:
            return
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt
        self._connection.send(interrupt=True)

    def _next(self) -> dict[str, object] | None:
        """Return the task's next message; None once the connection is closed."""
        message = self._connection.next()
        self._interrupts = 0
        return message

    def _answer(self, prompt: str) -> bool:
        """Read a line from the user and send it; return False if the user leaves with Ctrl-D."""
        while True:
            try:
                # Set before `is_over` is read: a connection that ends first sets `is_over`, then reads `is_prompting`.
                self._connection.is_prompting = True
                if self._connection.is_over:
                    return True
                line = read_line(f"{self._task} {printable(prompt)}")
            except EOFError:
                echo(f"\n{self._task} continues.")
                return False
            except KeyboardInterrupt:
                echo("")  # drop the line, as a shell does
                continue
            finally:
                self._connection.is_prompting = False
            if not sys.stdin.isatty():
                echo(line)  # a terminal has already echoed the line
            self._connection.send(line=line)
            return True

    def _print_end(self, why: str) -> bool:
        if why == "quits":
            echo(f"{self._task} continues; its breakpoints are ignored from now on.")
            return False
        echo(f"{self._task} {'continues' if why == 'continues' else 'has left the debugger'}.")
        return True


def read_line(prompt: str) -> str:
    """Read a line of valid text from the user. Raises EOFError at the end of input."""
    while True:
        line = input(prompt)
        try:
            line.encode()
        except UnicodeEncodeError:
            echo("That is not UTF-8 text.")
        else:
            return line


@contextmanager
def history() -> Iterator[None]:
    """Enable line editing with the history of earlier sessions, if standard input is a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    import readline

    file = RunStore().home / "debug-history"
    with suppress(OSError):
        readline.read_history_file(file)
    readline.set_completer_delims(DELIMITERS)
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
        readline.set_history_length(LONGEST_HISTORY)
        with suppress(OSError):
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
            readline.write_history_file(file)


def set_completer(connection: DebuggerConnection) -> None:
    """Complete words at the prompt with the task's suggestions."""
    if not sys.stdin.isatty():
        return
    import readline

    found: list[str] = []

    def complete(text: str, state: int) -> str | None:
        if state == 0:
            found[:] = connection.matches(readline.get_line_buffer(), readline.get_begidx(), readline.get_endidx())
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
