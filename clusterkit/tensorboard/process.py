"""Starts and stops TensorBoard's process, which runs `clusterkit.tensorboard.main`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from clusterkit.client.directory import RunDirectory
from clusterkit.system.companion import Companion, Script
from clusterkit.system.process import code_of
from clusterkit.words.events import Crashed, TensorBoardLost, TensorBoardReady

END_WITHIN = 3.0  # seconds to write the last scalars
NO_ENV: Mapping[str, str] = MappingProxyType({})
Post = Callable[[TensorBoardReady | TensorBoardLost | Crashed], None]


class TensorBoard:
    """A TensorBoard process for a run. Posts TensorBoardReady, or TensorBoardLost if it fails or ends by itself.

    Create it in a thread that lives as long as this process: the parent-death signal is tied to that thread.
    """

    def __init__(self, run: RunDirectory, post: Post, port: int = 0, env: Mapping[str, str] = NO_ENV) -> None:
        self._post = post
        self._log = run.path / "tensorboard.log"
        self._lost = False
        self._companion: Companion | None = None
        script = Script("tensorboard", lambda channel: _argv(run, channel, port), self._log, env)
        try:
            self._companion = Companion(script, self._heard, self._ended, post)
        except OSError as error:
            post(TensorBoardLost(f"its process can't be started ({error.strerror})"))

    @property
    def pid(self) -> int | None:
        """The process id; None if the process could not be started."""
        return None if self._companion is None else self._companion.pid

    def stop(self) -> None:
        """End the process, after it has written the rest of the journal."""
        if self._companion is not None:
            self._companion.stop(END_WITHIN)

    def _heard(self, message: Any) -> None:
        match message:
            case {"address": str(address)}:
                self._post(TensorBoardReady(address))
            case {"lost": str(lost)}:  # the process keeps writing scalars, to be viewed later
                self._lost = self._lost or bool(lost)
                self._post(TensorBoardLost(f"{lost} (its log: {self._log})"))

    def _ended(self) -> None:
        if not self._lost:
            self._post(TensorBoardLost(f"its process has ended (its log: {self._log})"))


def _argv(run: RunDirectory, channel: int, port: int) -> Sequence[str]:
    # -P: modules in the working directory must not shadow TensorBoard's.
    arguments = [str(run.path), str(channel), str(port), str(os.getpid())]
    return [sys.executable, "-P", "-c", code_of("clusterkit.tensorboard.main"), *arguments]
