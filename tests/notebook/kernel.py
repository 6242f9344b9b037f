"""A real kernel, as a notebook has it: cells are run, their outputs collected as the notebook's file has them."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.environment import clean_environment

WITHIN = 40.0  # seconds for a cell


@dataclass
class Cell:
    """A cell that was run: its outputs in order, and how often an output was replaced."""

    outputs: list[dict[str, Any]] = field(default_factory=list)
    updates: list[float] = field(default_factory=list)
    largest: int = 0

    @property
    def text(self) -> str:
        """All outputs as plain text; an error as the notebook shows it."""
        return "\n".join(map(_text_of, self.outputs))

    @property
    def failed(self) -> bool:
        """Whether the cell raised an exception."""
        return any("traceback" in output for output in self.outputs)

    def take(self, kind: str, content: dict[str, Any]) -> None:
        """Take a message of the kernel."""
        if kind in ("stream", "error", "execute_result", "display_data"):
            self.outputs.append(content)
        elif kind == "update_display_data":
            self.updates.append(time.monotonic())
            same = [old for old in self.outputs if old.get("transient") == content["transient"]]
            same[0]["data"] = content["data"]
        self.largest = max(self.largest, len(content.get("data", {}).get("text/html", "")))


def _text_of(output: dict[str, Any]) -> str:
    if "traceback" in output:
        return "\n".join(output["traceback"])
    return str(output["text"] if "text" in output else output["data"].get("text/plain", ""))


class Kernel:
    """A kernel with the extension loaded."""

    def __init__(self, home: Path, cwd: Path) -> None:
        self.home = home
        self.manager = KernelManager(kernel_name="python3")
        env = clean_environment(home)
        # The interpreter of the tests, whatever kernel is registered under the name.
        assert self.manager.kernel_spec is not None
        self.manager.kernel_spec.argv[0] = sys.executable
        self.manager.start_kernel(env=env, cwd=str(cwd))
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=WITHIN)
        assert not self.run("%load_ext clusterkit").failed

    def run(self, code: str, within: float = WITHIN) -> Cell:
        """Run a cell to its end."""
        return self.collect(self.client.execute(code), Cell(), within)

    def start(self, code: str) -> Running:
        """Start a cell."""
        return Running(self, self.client.execute(code))

    def collect(self, request: str, cell: Cell, within: float, until: str | None = None) -> Cell:
        """Take a cell's messages until it is idle, or its text contains `until`."""
        deadline = time.monotonic() + within
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.0, deadline - time.monotonic()))
            if message["parent_header"].get("msg_id") != request:
                continue
            cell.take(message["msg_type"], message["content"])
            is_idle = message["content"].get("execution_state") == "idle"
            if is_idle or (until is not None and until in cell.text):
                assert until is None or until in cell.text, cell.text
                return cell

    def end(self) -> None:
        """End the kernel, as closing the notebook does."""
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()
        self.manager.context.destroy(linger=0)


class Running:
    """A cell that runs."""

    def __init__(self, kernel: Kernel, request: str) -> None:
        self._kernel, self._request, self.cell = kernel, request, Cell()

    def wait_for(self, text: str, within: float = WITHIN) -> None:
        """Wait until the cell's output contains a text."""
        self._kernel.collect(self._request, self.cell, within, text)

    def end(self, within: float = WITHIN) -> Cell:
        """Wait for the cell's end."""
        return self._kernel.collect(self._request, self.cell, within)
