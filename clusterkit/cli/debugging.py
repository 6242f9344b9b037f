"""The user's side of the debugger: which task waits, and its prompt, with line editing and history."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from clusterkit.cli.looking import RunSnapshot
from clusterkit.cli.terminal import echo, say
from clusterkit.store.debugging import DebuggerConnection, connect
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.text.printable import printable
from clusterkit.text.spelling import listed
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.model import Task

LOOK_EVERY = 0.1  # seconds between two looks for a task that waits
LONGEST_HISTORY = 1000
DELIMITERS = " \t\n`@#$%^&*()=+[{]}\\|;:'\",<>?"  # of words that can be completed; pdb's own


class Desk:
    """Connects to one task after the other, until the user leaves or the run is over."""

    def __init__(self, run: RunDirectory, tasks: Sequence[Task]) -> None:
        self._run = run
        self._tasks = tasks
        self._look = RunSnapshot(run)
        self._told = False

    def serve(self) -> int:
        """Return the exit code. Raises ClusterkitError where it can't be known which task is meant."""
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # what is no text, `entered` refuses
        with history():
            try:
                while self._look.live:
                    if (found := self._find()) is None:
                        self._wait()
                    elif not Conversation(*found).hold():
                        return 0
                    self._look.refresh()
            except KeyboardInterrupt:
                echo("", err=True)
                return 0
        say(f"the run {self._run.run_id} is over.")
        return 0

    def _find(self) -> tuple[Task, DebuggerConnection] | None:
        """A task that waits, with a connection to its debugger."""
        status = self._look.status.tasks
        waiting = {task: place for task in self._tasks if (place := status[task].debugger)}
        waiting = {task: place for task, place in waiting.items() if self._run.debugger(task).exists()}
        task = next(iter(waiting), None) if len(waiting) < 2 else self._choose(waiting)
        connection = None if task is None else connect(self._run, task)
        if task is None or connection is None:
            return None
        self._told = False
        return task, connection

    def _choose(self, waiting: dict[Task, str]) -> Task:
        if not sys.stdin.isatty():
            how = f"Name one: clusterkit debug {next(iter(waiting))}"
            raise ClusterkitError(f"{listed(waiting)} wait in the debugger. {how}")
        for task, place in waiting.items():
            echo(f"{task} waits in the debugger at {place}.")
        first = next(iter(waiting))
        while True:
            try:
                word = entered(f"Which task? [{first}] ").strip()
            except EOFError:
                raise KeyboardInterrupt from None
            named = {str(task): task for task in waiting}.get(word or str(first))
            if named is not None:
                return named
            echo(f"{word} is not one of them.")

    def _wait(self) -> None:
        if not self._told:
            self._told = True
            whose = " or ".join(map(str, self._tasks)) if len(self._tasks) < 4 else "a task"
            say(f"waiting for {whose} to stop in the debugger. Ctrl-C ends this command.")
        time.sleep(LOOK_EVERY)


class Conversation:
    """The prompt of one task, from its stop until it continues."""

    def __init__(self, task: Task, connection: DebuggerConnection) -> None:
        self._task = task
        self._connection = connection
        self._interrupts = 0  # since the task was last heard of

    def hold(self) -> bool:
        """Talk to the task; return whether the user stays for the next one. Raises ClusterkitError."""
        set_completer(self._connection)
        signal.signal(signal.SIGINT, self._interrupted)
        try:
            message = self._next()
            if message is None:  # it has just continued
                return True
            while message is not None:
                if message.get("busy"):
                    raise ClusterkitError(f"Another terminal is connected to {self._task}.")
                if "left" in message:
                    return self._left(str(message["left"]))
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
        """Ctrl-C: drop the line at the prompt; else interrupt the task, and leave if that does not help."""
        if self._connection.prompting:
            self._connection.prompting = False
            raise KeyboardInterrupt
        if self._connection.over:  # the connection's own, or a user's who will hear of the end at once
            return
        self._interrupts += 1
        if self._interrupts > 1:
            raise KeyboardInterrupt
        self._connection.send(interrupt=True)

    def _next(self) -> dict[str, object] | None:
        """The task's next message; None if there will be none."""
        message = self._connection.next()
        self._interrupts = 0
        return message

    def _answer(self, prompt: str) -> bool:
        """Ask the user for a line, and send it; return whether the user stays."""
        while True:
            try:
                self._connection.prompting = True  # before the look: the connection ends the other way round
                if self._connection.over:
                    return True
                line = entered(f"{self._task} {printable(prompt)}")
            except EOFError:
                echo(f"\n{self._task} continues.")
                return False
            except KeyboardInterrupt:
                echo("")  # the line is dropped, as a shell does
                continue
            finally:
                self._connection.prompting = False
            if not sys.stdin.isatty():
                echo(line)  # a terminal has shown it
            self._connection.send(line=line)
            return True

    def _left(self, why: str) -> bool:
        if why == "quits":
            echo(f"{self._task} continues; its breakpoints are ignored from now on.")
            return False
        echo(f"{self._task} {'continues' if why == 'continues' else 'has left the debugger'}.")
        return True


def entered(prompt: str) -> str:
    """A line that the user enters. Raises EOFError at the end."""
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
    """Line editing, with the lines of earlier sessions, where standard input is a terminal."""
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
    """Complete words with what the task says."""
    if not sys.stdin.isatty():
        return
    import readline

    found: list[str] = []

    def complete(text: str, state: int) -> str | None:
        if state == 0:
            found[:] = connection.matches(readline.get_line_buffer(), readline.get_begidx(), readline.get_endidx())
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
