"""The supervisor's side of a run's fork server: starts and watches the server, and requests a fork for each attempt."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from clusterkit.job.plan import Start
from clusterkit.system.barrier import join, start_thread
from clusterkit.system.exchange import MAX_ANSWER, BadAnswer, answer, ask, parse_line
from clusterkit.system.poller import Bell
from clusterkit.system.process import HELPER_PIDS, first_readable, reap_ended, start_session
from clusterkit.task.entry import ENTRY
from clusterkit.warm.servable import Preload
from clusterkit.words.events import Crashed, Noted

ANSWER_WITHIN = 5.0  # seconds; a server that takes longer to fork a task is killed
TRIES = 3  # if this many servers in a row end without having forked a task, the remaining tasks start cold
UP_WITHIN = 120.0  # seconds; the time limit for a new server's imports
KILLED_WITHIN = 1.0  # seconds; the maximum wait for a server to exit after SIGKILL
Post = Callable[[Noted | Crashed], None]


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a fork server or warm server: its interpreter, environment, imports and log file."""

    python: str
    env: Mapping[str, str]
    preload: Preload
    log: str
    # The environment variables that the program itself sets before it imports TensorFlow; None for deleted variables.
    own_variables: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def whole_env(self) -> dict[str, str]:
        return {name: value for name, value in {**self.env, **self.own_variables}.items() if value is not None}


class StartedServer(NamedTuple):
    """A fork server's pid, the socket for requests, and the pipe on which the server reports the end of its imports."""

    pid: int
    channel: int
    lifeline: int


def begin(launch: Launch) -> StartedServer:
    """Start a fork server without waiting for its imports. The server dies with the calling thread. Raises OSError."""
    with ExitStack() as own_stack, ExitStack() as server_stack:
        channel, other = socket.socketpair()
        own_stack.enter_context(channel)
        server_stack.enter_context(other)
        lifeline, own_lifeline = os.pipe2(os.O_CLOEXEC)
        own_stack.callback(os.close, lifeline)
        server_stack.callback(os.close, own_lifeline)
        output = os.open(launch.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        server_stack.callback(os.close, output)
        imports = {"tensorflow": launch.preload.tensorflow, "preload": launch.preload.modules}
        options = json.dumps({"lifeline": own_lifeline, **imports, "path": launch.preload.path})
        argv = [launch.python, ENTRY, str(os.getpid()), str(other.fileno()), "serve", options]
        process = start_session(argv, output, launch.whole_env, pass_fds=(other.fileno(), own_lifeline))
        process.returncode = 0  # Popen must not reap the process: `ForkServer.stop` reaps it
        own_stack.pop_all()
        return StartedServer(process.pid, channel.detach(), lifeline)


class NoForkServer(Exception):
    """Raised if the fork server has ended or does not answer. The attempt then has to start cold."""


class PendingFork(NamedTuple):
    """A requested fork. The server has to answer before `until`, on the monotonic clock."""

    start: Start
    until: float
    opened: int  # the write end of a pipe: the fork starts the task when it reads a byte, and exits at end of file


class ForkServer:
    """A running fork server. A thread posts one event when the server becomes ready, and another one when it ends."""

    def __init__(self, inherited: StartedServer, post: Post, tries: int = TRIES) -> None:
        self.modules: Mapping[str, str] = {}  # maps each top-level module that the server has imported to its directory
        self.ready = self.is_gone = False
        self.tries = tries  # how many more servers in a row, including this one, may end without having forked a task
        self._forked = False
        self._end_reason = ""  # why the supervisor killed the server; "" if it did not
        self._retired = False
        self._post = post
        self._pid, channel, self._lifeline = inherited
        HELPER_PIDS.add(self._pid)
        self._channel = socket.socket(fileno=channel)
        self._received = bytearray()  # bytes of the server's answers that `finish_fork` has not parsed yet
        self._pidfd = os.pidfd_open(self._pid)
        self._retire_bell = Bell()
        self._thread = start_thread("fork server", self._watch, post)

    def request_fork(self, start: Start) -> PendingFork:
        """Send a request for a fork, whose result `finish_fork` reads later. Raises NoForkServer or OSError."""
        if not self.ready or self.is_gone:
            raise NoForkServer
        with ExitStack() as stack:
            plan = start.plan
            cwd = os.open(plan.cwd or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, cwd)
            gate, opened = os.pipe2(os.O_CLOEXEC)
            stack.callback(os.close, gate)
            try:
                descriptors = [gate, start.output, start.stacks, cwd, *start.namespaces]
                argv, command, how = [plan.target, *plan.args], plan.command, plan.kind
                request = {"parent": os.getpid(), "how": how, "argv": argv, "command": command, "env": dict(start.env)}
                return PendingFork(start, ask(self._channel, request, descriptors, ANSWER_WITHIN), opened)
            except OSError as error:
                os.close(opened)
                raise self._give_up(error) from None

    def finish_fork(self, pending: PendingFork) -> int:
        """Wait for the server's answer to `pending`, and return the fork's pid. Raises NoForkServer or OSError.

        `pending` must be the oldest request that has not been answered, since the server answers in order.
        """
        try:
            if self.is_gone:
                raise NoForkServer
            try:
                response = answer(self._channel, pending.until, self._received)
            except OSError as error:
                raise self._give_up(error) from None
            number, pid = response.get("errno"), response.get("pid")
            if isinstance(number, int) and number in errno.errorcode:
                raise OSError(number, os.strerror(number), pending.start.plan.python)
            if not isinstance(pid, int) or not _is_child(pid):
                raise self._give_up(BadAnswer())
            with suppress(BrokenPipeError):  # the fork has been killed; the watcher of tasks will notice its exit
                os.write(pending.opened, b"!")
            self._forked = True
            return pid
        finally:
            os.close(pending.opened)

    def retire(self, why: str) -> None:
        """Stop the server, so that another one can replace it. The console shows the clause `why` as the reason."""
        self._end_reason, self._retired = why, True
        self.stop()

    def stop(self) -> None:
        """Kill and reap the server. A server that survives KILLED_WITHIN seconds is killed again when the run ends."""
        self.is_gone = True
        self._kill()
        first_readable((self._pidfd,), KILLED_WITHIN)
        self._retire_bell.ring()
        join(self._thread)
        reap_ended(self._pid)
        HELPER_PIDS.discard(self._pid)
        self._channel.close()
        self._retire_bell.close()
        for descriptor in (self._lifeline, self._pidfd):
            os.close(descriptor)

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _give_up(self, error: OSError) -> NoForkServer:
        if isinstance(error, TimeoutError):
            self._end_reason = f"it did not answer within {ANSWER_WITHIN:g} s"
        elif isinstance(error, BadAnswer):
            self._end_reason = str(error)
        self.is_gone = True
        self._kill()
        return NoForkServer()

    def _watch(self) -> None:
        problem: str | None = None
        match self._read_report():
            case {"problem": None, "seconds": float(seconds), "modules": dict(modules)}:
                self.modules, self.ready = {str(name): str(place) for name, place in modules.items()}, True
                self._post(Noted(f"The fork server is ready after {seconds:.1f} s (pid {self._pid}).", minor=True))
                first_readable((self._pidfd, self._retire_bell.fileno()))
            case {"problem": str(problem)}:
                pass
        was_ready, self.is_gone, self.ready = self.ready, True, False
        self.tries = TRIES if self._forked or self._retired else 0 if problem else self.tries - 1
        self._kill()
        why = self._end_reason or problem or ("it was killed" if was_ready else "it did not become ready")
        self._post(lost_event(why, self.tries > 0))

    def _read_report(self) -> Any:
        """Wait for the server's report on its imports. Return the report; None if no valid report arrives."""
        until, line = time.monotonic() + UP_WITHIN, b""
        while not line.endswith(b"\n") and len(line) < MAX_ANSWER:
            if first_readable((self._retire_bell.fileno(), self._lifeline), until - time.monotonic()) != self._lifeline:
                return None
            if not (more := os.read(self._lifeline, 1 << 16)):
                return None
            line += more
        return parse_line(line)


def lost_event(why: str, again: bool) -> Noted:
    """Return an event for the console: a fork server has ended. `again` is True if another server will be started."""
    next_step = "another one starts in the background" if again else "tasks start cold from now on"
    return Noted(f"The fork server is gone ({why}); {next_step}.")


def _is_child(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (OSError, OverflowError):
        return False
    return True
