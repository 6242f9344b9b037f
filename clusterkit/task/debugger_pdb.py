"""The debugger of a task: Python's pdb, with `clusterkit debug` as its terminal.

Loaded by path when a task is held for the first time: standard library only. Whoever leaves, in whatever way, lets the
task continue.
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

OURS = os.path.dirname(os.path.realpath(__file__)) + os.sep  # code from here has started the program
MOST_MATCHES = 200
LONGEST_PIECE = 1 << 16  # characters of what is printed in one message
turns = threading.Lock()  # one thread at a time is in the debugger
own = threading.local()  # each thread's debugger


def own_debugger(load: Any) -> Debugger:
    """This thread's debugger. Breakpoints that users set in it are all threads'."""
    if not hasattr(own, "debugger"):
        own.debugger = Debugger(load)
    return own.debugger  # type: ignore[no-any-return]


class Console:
    """The streams of pdb: what it writes goes to the client, and what it reads comes from there."""

    encoding = "utf-8"

    def __init__(self, debugger: Debugger) -> None:
        self.debugger = debugger
        self.tail = ""  # of a line that is not complete: the prompt, if a line is read next

    def write(self, text: str) -> int:
        """Send whole lines, in pieces that a client reads."""
        lines, newline, self.tail = (self.tail + str(text)).rpartition("\n")
        lines += newline
        if self.debugger.session is not None:
            for begin in range(0, len(lines), LONGEST_PIECE):
                self.debugger.session.send(out=lines[begin : begin + LONGEST_PIECE])
        return len(text)

    def flush(self) -> None:
        """Lines are sent when they are written."""

    def readline(self) -> str:
        """Ask for a line; empty once the client has left."""
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
    """pdb, where leaving is `continue`. The task is held from the first stop until somebody leaves."""

    def __init__(self, load: Any) -> None:
        console = Console(self)
        self.policy, self.sessions = load("task/debugger"), load("task/debug_session")
        self.session: Any = None
        self.ending: Any = None  # the session that is about to end
        self.hold: Any = None  # the task's, as the supervisor knows it
        self.prompting = False  # from a stop until a command lets the program run
        self.header: object = None
        self.raised = ""  # what is examined after it was raised
        self.leaves = ""  # why the session ends
        self.foreign = False  # SIGINT came from somebody else
        self.handler: Any = None  # of SIGINT, the program's
        super().__init__(completekey=None, stdin=console, stdout=console, nosigint=True)  # type: ignore[arg-type]

    def examine(self, raised: str, traceback: TracebackType) -> None:
        """Hold the task where something was raised, until somebody leaves."""
        self.raised, traced = raised, sys.gettrace()
        sys.settrace(None)
        if traced != self.trace_dispatch:  # else it knows where it is
            self.reset()
        try:
            self.interaction(None, traceback)
        finally:
            self.raised = ""
            self._end_session()
            sys.settrace(traced)

    def reset(self) -> None:
        """Begin anew. With breakpoints that users have set, everything is traced, and pdb would stop in itself now."""
        sys.settrace(None)
        super().reset()

    def interaction(self, frame: FrameType | None, traceback: Any) -> None:
        """Hold the task, if it is not held yet, and take commands until one lets the program run."""
        self.prompting = True
        try:
            if self.session is None and not self._begin_session(frame, traceback):
                self.set_continue()
                return
            self._interact(frame, traceback)
        finally:
            self.prompting = False

    def _interact(self, frame: FrameType | None, traceback: Any) -> None:
        self.leaves, self.foreign = "", False
        try:
            if self.header is not None:
                self.message(str(self.header))
                self.header = None
            super().interaction(frame, traceback)
        except BaseException:
            self.leaves = "ends"
            raise
        finally:
            if self.leaves:
                self._end_session()

    def _begin_session(self, frame: FrameType | None, traceback: TracebackType | None) -> bool:
        """Listen, and tell the supervisor; return whether there is one."""
        turns.acquire()
        if self.policy.muted and not self.raised:  # the user has quit while this thread waited for its turn
            turns.release()
            return False
        session, self.hold = None, self.policy.Hold()
        try:
            session = self.sessions.Session(os.environ["CLUSTERKIT_DEBUGGER"].partition(":")[2], self.hold.end)
            place = self.policy.place_of(frame, traceback)
            if self.hold.begin(error=self.raised, **place):
                self.session, session = session, None
        except (OSError, RuntimeError) as error:  # the latter: no thread can be started
            print(f"clusterkit: the debugger can't listen: {error}. The task continues.", file=sys.stderr, flush=True)
        finally:
            if session is not None:
                session.close("ends")
            if self.session is None:
                turns.release()
        if self.session is None:
            return False
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is not None:  # None: C code's, which can't be restored
            self.handler = signal.signal(signal.SIGINT, self._interrupted)
            self.session.interruptible = True
        return True

    def _end_session(self) -> None:
        """The task is not held any more."""
        self.ending, self.session = self.session, None
        if self.ending is None:
            return
        self.hold.end()
        self.ending.close(self.leaves or "ends")
        if self.handler is not None and signal.getsignal(signal.SIGINT) == self._interrupted:  # not the program's
            signal.signal(signal.SIGINT, self.handler)
        self.handler = None
        self.ending = None
        turns.release()

    def _cmdloop(self) -> None:
        """Take commands; an interrupt of the client's ends the one that runs."""
        while True:
            try:
                self.allow_kbdint = True
                self.cmdloop()
                self.allow_kbdint = False
                return
            except KeyboardInterrupt:
                self.allow_kbdint = False  # another one waits for the next prompt
                if self.foreign:
                    raise
                self.message("--KeyboardInterrupt--")

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        """SIGINT: the client's, or somebody else's, which does what it would do without a debugger."""
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
        """Run a command. Whatever it raises is shown, and never the program's."""
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

    def do_EOF(self, arg: str) -> bool:
        """EOF

        Leave: the task continues until a breakpoint.
        """
        return self._leave("continues")

    def do_debug(self, arg: str) -> Any:
        """debug code

        Step through an expression or statement, in a debugger of its own; then this prompt is back.
        """
        try:
            return super().do_debug(arg)
        finally:
            pdb.Pdb._previous_sigint_handler = None  # type: ignore[attr-defined]
            if self.handler is not None:  # the other one has taken SIGINT
                signal.signal(signal.SIGINT, self._interrupted)

    def do_run(self, arg: str) -> None:
        """run | restart

        Not here: a task is restarted by `clusterkit restart`.
        """
        self.error("A task is restarted by `clusterkit restart`.")

    def do_interact(self, arg: str) -> None:
        """interact

        Not here: statements work at the prompt.
        """
        self.error("This needs a terminal of the task's own. Statements work at the prompt: !x = 1")

    do_c = do_cont = do_continue
    do_q = do_exit = do_quit
    do_restart = do_run

    def _leave(self, why: str) -> bool:
        self.leaves = why
        self.set_continue()
        return True

    def stop_here(self, frame: FrameType) -> bool:
        """Whether to stop in this frame: clusterkit's own are not the program's."""
        return not is_ours(frame) and bool(super().stop_here(frame))

    def get_stack(self, f: FrameType | None, t: TracebackType | None) -> tuple[list[tuple[FrameType, int]], int]:
        """The stack and the index of the current frame, without the frames below the program's."""
        stack, index = super().get_stack(f, t)
        below = next((n for n, (frame, _) in enumerate(stack) if not is_ours(frame)), 0)
        return stack[below:], max(0, index - below)

    def matches(self, asked: list[Any]) -> list[str]:
        """What a word can be completed to, given the line and where the word begins and ends."""
        try:
            line, begin, end = asked
            word = line[begin:end]
            name = line.split(maxsplit=1)[0] if line.strip() else ""
            complete = getattr(self, f"complete_{name}", self.completedefault) if begin else None
            found = complete(word, line, begin, end) if complete else self.completenames(word, line, begin, end)
            if not begin:
                found = [*found, *self.completedefault(word, line, begin, end)]
            return sorted({str(one) for one in found})[:MOST_MATCHES]
        except Exception:  # of the program's objects, or what the client sent
            return []


def is_ours(frame: FrameType) -> bool:
    """Whether the code is clusterkit's, which has started the program."""
    path = frame.f_code.co_filename
    return os.path.isabs(path) and os.path.realpath(path).startswith(OURS)
