"""Starts and stops TensorBoard's process, which runs `clusterkit.tensorboard.main`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from clusterkit.client.directory import RunDirectory
from clusterkit.system.barrier import join, start_thread
from clusterkit.system.exchange import parse_line
from clusterkit.system.process import code_of, end_helper, start_helper
from clusterkit.words.events import Crashed, TensorBoardLost, TensorBoardReady

END_WITHIN = 3.0  # seconds to write the last scalars
NO_ENV: Mapping[str, str] = MappingProxyType({})
Post = Callable[[TensorBoardReady | TensorBoardLost | Crashed], None]


class TensorBoard:
    """A TensorBoard process for a run. Posts TensorBoardReady, or TensorBoardLost if it fails or ends by itself.

    Why not a Poller: the thread reads one channel, and ends when the process closes it.

    Create it in a thread that lives as long as this process: the parent-death signal is tied to that thread.
    """

    def __init__(self, run: RunDirectory, post: Post, port: int = 0, env: Mapping[str, str] = NO_ENV) -> None:
        self._post = post
        self._log = run.path / "tensorboard.log"
        self._stopped = False
        self._process: subprocess.Popen[bytes] | None = None
        self._channel, other = socket.socketpair()
        try:
            with other, self._log.open("ab") as log:
                argv = _argv(run, other.fileno(), port)
                self._process = start_helper(argv, other.fileno(), log.fileno(), {**os.environ, **env})
        except OSError as error:
            post(TensorBoardLost(f"its process can't be started ({error.strerror})"))
            return
        self._pidfd = os.pidfd_open(self._process.pid)
        self._thread = start_thread("tensorboard", self._listen, post)

    @property
    def pid(self) -> int | None:
        """The process id; None if the process could not be started."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """End the process, after it has written the rest of the journal."""
        if self._stopped:
            return
        self._stopped = True
        if self._process is not None:
            self._channel.shutdown(socket.SHUT_WR)
            end_helper(self._process, self._pidfd, END_WITHIN)
            join(self._thread)
            os.close(self._pidfd)
        self._channel.close()

    def _listen(self) -> None:
        lost = ""
        with self._channel.makefile("rb") as lines:
            for line in lines:
                match parse_line(line):
                    case {"address": str(address)}:
                        self._post(TensorBoardReady(address))
                    case {"lost": str(lost)}:  # the process keeps writing scalars, to be viewed later
                        self._post(TensorBoardLost(f"{lost} (its log: {self._log})"))
        if not self._stopped and not lost:
            self._post(TensorBoardLost(f"its process has ended (its log: {self._log})"))


def _argv(run: RunDirectory, channel: int, port: int) -> Sequence[str]:
    # -P: modules in the working directory must not shadow TensorBoard's.
    arguments = [str(run.path), str(channel), str(port), str(os.getpid())]
    return [sys.executable, "-P", "-c", code_of("clusterkit.tensorboard.main"), *arguments]
