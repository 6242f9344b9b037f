"""The debugger of a task: Python's pdb, with `clusterkit debug` as its terminal.

A held task loads this file. The task continues, whichever command ends the debugger.
"""

from __future__ import annotations

import bdb
import os
import pdb
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

OURS = os.path.dirname(os.path.realpath(__file__)) + os.sep  # the directory of the clusterkit code that runs in a task
MOST_MATCHES = 200
LONGEST_PIECE = 1 << 16  # characters; the maximum length of the output in one message
turns = threading.Lock()  # a thread holds this lock while it is in the debugger; other threads wait for the lock
own = threading.local()  # each thread's debugger is its `own.debugger`


def own_debugger(load: Any) -> Debugger:
    """Return this thread's debugger. Breakpoints that the user sets in one debugger apply to all threads."""
    if not hasattr(own, "debugger"):
        own.debugger = Debugger(load)
    return own.debugger  # type: ignore[no-any-return]


class PdbStreams:
    """The input and output stream of pdb, connected to the client of the debugger's session."""

    encoding = "utf-8"

    def __init__(self, debugger: Debugger) -> None:
        self.debugger = debugger
        self.tail = ""  # the written text after the last newline; when pdb reads a line, this text is the prompt

    def write(self, text: str) -> int:
        """Send the complete lines of the written text, in messages of at most LONGEST_PIECE characters."""
        lines, newline, self.tail = (self.tail + str(text)).rpartition("\n")
        lines += newline
        if self.debugger.session is not None:
            for begin in range(0, len(lines), LONGEST_PIECE):
                self.debugger.session.send(out=lines[begin : begin + LONGEST_PIECE])
        return len(text)

    def flush(self) -> None:
        """Do nothing, since `write` sends complete lines at once."""

    def readline(self) -> str:
        """Send the prompt, and return the line that the client enters, or "" once the client has disconnected."""
        prompt, self.tail = self.tail, ""
        session = self.debugger.session
        if session is None:
            return ""
        session.send(prompt=prompt)
        while (message := session.next()) is not None:
            if "line" in message:
                return f"{message['line']}\n"
            session.send(matches=self.debugger.matches(message["complete"]))
        return ""


class Debugger(pdb.Pdb):
    """A pdb debugger for one thread. Its session with a client lasts from a stop until the user continues the task."""

    def __init__(self, load: Any) -> None:
        console = PdbStreams(self)
        self.policy, self.sessions = load("task/debugger"), load("task/debug_session")
        self.session: Any = None
        self.ending: Any = None  # the session while `_end_session` closes it, otherwise None
        self.hold: Any = None  # the session's Hold, which reports to the supervisor
        self.prompting = False  # True from a stop until a command lets the program run
        self.header: object = None
        self.raised = ""  # the text of the exception that is being examined
        self.end_reason = ""  # the reason why the session ends
        self.foreign = False  # True once a SIGINT has arrived that the session's client did not request
        self.handler: Any = None  # the program's handler of SIGINT
        super().__init__(completekey=None, stdin=console, stdout=console, nosigint=True)  # type: ignore[arg-type]

    def examine(self, raised: str, traceback: TracebackType) -> None:
        """Hold the task after an exception, at the traceback's last frame, until the user lets the task continue."""
        self.raised, traced = raised, sys.gettrace()
        sys.settrace(None)
        if traced != self.trace_dispatch:  # otherwise this debugger is already tracing
            self.reset()
        try:
            self.interaction(None, traceback)
        finally:
            self.raised = ""
            self._end_session()
            sys.settrace(traced)

    def reset(self) -> None:
        """Turn off tracing and reset pdb. If tracing were on, pdb could stop at a breakpoint in pdb's own code."""
        sys.settrace(None)
        super().reset()

    def interaction(self, frame: FrameType | None, traceback: Any) -> None:
        """Hold the task, unless it is already held, and execute the user's commands until one continues the program."""
        self.prompting = True
        try:
            if self.session is None and not self._begin_session(frame, traceback):
                self.set_continue()
                return
            self._interact(frame, traceback)
        finally:
            self.prompting = False

    def _interact(self, frame: FrameType | None, traceback: Any) -> None:
        self.end_reason, self.foreign = "", False
        try:
            if self.header is not None:
                self.message(str(self.header))
                self.header = None
            super().interaction(frame, traceback)
        except BaseException:
            self.end_reason = "ends"
            raise
        finally:
            if self.end_reason:
                self._end_session()

    def _begin_session(self, frame: FrameType | None, traceback: TracebackType | None) -> bool:
        """Listen for a client, and report the hold to the supervisor; return whether both succeeded."""
        turns.acquire()
        if self.policy.muted and not self.raised:  # the user quit while this thread waited for the lock
            turns.release()
            return False
        session, self.hold = None, self.policy.Hold()
        try:
            session = self.sessions.DebugSession(os.environ["CLUSTERKIT_DEBUGGER"].partition(":")[2], self.hold.end)
            place = self.policy.place_of(frame, traceback)
            if self.hold.begin(error=self.raised, **place):
                self.session, session = session, None
        except (OSError, RuntimeError) as error:  # RuntimeError if no thread can be started
            print(f"clusterkit: the debugger can't listen: {error}. The task continues.", file=sys.stderr, flush=True)
        finally:
            if session is not None:
                session.close("ends")
            if self.session is None:
                turns.release()
        if self.session is None:
            return False
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is not None:  # None: set by C code, can't be restored
            self.handler = signal.signal(signal.SIGINT, self._interrupted)
            self.session.interruptible = True
        return True

    def _end_session(self) -> None:
        self.ending, self.session = self.session, None
        if self.ending is None:
            return
        self.hold.end()
        self.ending.close(self.end_reason or "ends")
        # If the program has set another handler during the session, keep that handler.
        if self.handler is not None and signal.getsignal(signal.SIGINT) == self._interrupted:
            signal.signal(signal.SIGINT, self.handler)
        self.handler = None
        self.ending = None
        turns.release()

    def _cmdloop(self) -> None:
        """Run commands. An interrupt from the client ends the current command."""
        while True:
            try:
                self.allow_kbdint = True
                self.cmdloop()
                self.allow_kbdint = False
                return
            except KeyboardInterrupt:
                self.allow_kbdint = False  # until the next prompt, an interrupt must not raise KeyboardInterrupt
                if self.foreign:
                    raise
                self.message("--KeyboardInterrupt--")

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGINT from the client; pass a SIGINT of another origin on to the program's own handler."""
        if self.ending is not None and self.ending.in_flight:
            self.ending.in_flight = False
        elif self.session is None or not self.session.in_flight:
            self.foreign, handler, self.handler = True, self.handler, None
            if self.session is not None:
                self.session.interruptible = False
            signal.signal(number, handler)
            signal.raise_signal(number)
        else:
            is_mine = (self.allow_kbdint or not self.prompting) and self.session.claim()
            self.session.in_flight = False
            if is_mine and self.prompting:
                raise KeyboardInterrupt
            if is_mine:
                self.message("\nThe program is interrupted.")
                self.set_step()
                self.set_trace(frame)

    def onecmd(self, line: str) -> Any:
        """Run a command. An exception of the command is shown to the user, and does not reach the program."""
        if line == "EOF" and self.commands_defining:
            return True
        try:
            return super().onecmd(line)
        except (bdb.BdbQuit, KeyboardInterrupt):
            raise
        except Exception as error:
            self.error(self.policy.described(error))
            return None

    def do_continue(self, arg: str) -> bool:
        """c(ont(inue))

        Let the task continue until a breakpoint.
        """
        return self._leave("continues")

    def do_quit(self, arg: str) -> bool:
        """q(uit) | exit

        Leave the debugger for good: the task continues, and no breakpoint holds this attempt any more.
        To end the run, use `clusterkit down`.
        """
        self.policy.muted.append(True)
        self.clear_all_breaks()
        return self._leave("quits")

    def do_debug(self, arg: str) -> Any:
        """debug code

        Step through an expression or statement in a nested debugger, then return to this prompt.
        """
        try:
            return super().do_debug(arg)
        finally:
            pdb.Pdb._previous_sigint_handler = None  # type: ignore[attr-defined]
            if self.handler is not None:  # the nested debugger has replaced the handler of SIGINT
                signal.signal(signal.SIGINT, self._interrupted)

    def do_run(self, arg: str) -> None:
        """run | restart

        Not available: use `clusterkit restart` to restart a task.
        """
        self.error("A task is restarted by `clusterkit restart`.")

    def do_interact(self, arg: str) -> None:
        """interact

        Not available: statements work at the prompt.
        """
        self.error("This needs a terminal of the task's own. Statements work at the prompt: !x = 1")

    do_c = do_cont = do_EOF = do_continue
    do_q = do_exit = do_quit
    do_restart = do_run

    def _leave(self, why: str) -> bool:
        self.end_reason = why
        self.set_continue()
        return True

    def stop_here(self, frame: FrameType) -> bool:
        """Return whether to stop in this frame: never in clusterkit's own code."""
        return not is_ours(frame) and bool(super().stop_here(frame))

    def get_stack(self, f: FrameType | None, t: TracebackType | None) -> tuple[list[tuple[FrameType, int]], int]:
        """Return the program's stack without clusterkit's outermost frames, and the index of the current frame."""
        stack, index = super().get_stack(f, t)
        below = next((n for n, (frame, _) in enumerate(stack) if not is_ours(frame)), 0)
        return stack[below:], max(0, index - below)

    def matches(self, request: list[Any]) -> list[str]:
        """Return the completions of a word. `request` is the line, and the word's start and end in the line."""
        try:
            line, begin, end = request
            word = line[begin:end]
            name = line.split(maxsplit=1)[0] if line.strip() else ""
            complete = getattr(self, f"complete_{name}", self.completedefault) if begin else None
            completions = complete(word, line, begin, end) if complete else self.completenames(word, line, begin, end)
            if not begin:
                completions = [*completions, *self.completedefault(word, line, begin, end)]
            return sorted({str(one) for one in completions})[:MOST_MATCHES]
        except Exception:  # raised by the program's objects, or caused by an invalid request
            return []


def is_ours(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return os.path.isabs(path) and os.path.realpath(path).startswith(OURS)
