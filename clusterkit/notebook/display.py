"""The outputs of a cell that shows a run: the tabs, and the tabs' content, which is updated while the run is live."""

from __future__ import annotations

import time
from collections.abc import Mapping

from IPython.core.getipython import get_ipython
from IPython.display import display

from clusterkit.cli.snapshot import RunSnapshot
from clusterkit.notebook.curve import LossCurve
from clusterkit.notebook.output import CellOutput
from clusterkit.notebook.page import panes, tabs
from clusterkit.views.statusline import status_line

WIDTH = 100  # columns of the status line


class CellDisplay:
    """Shows a run in the cell that waits for the run."""

    def __init__(self, run_id: str) -> None:
        self._key = f"clusterkit-{run_id}".replace(".", "-")
        self._curve = LossCurve()
        self._shown: Mapping[str, str] | None = None
        self._replaces = hasattr(get_ipython(), "kernel")  # False in a terminal, where IPython prints each update

    def __call__(self, output: CellOutput, look: RunSnapshot | None, over: bool) -> None:
        """Show the run if its content has changed."""
        if look is None:
            if over:
                print("\n".join(output.report))
            return
        if not (over or self._replaces):
            return
        self._curve.add(look.status.step, look.status.metrics)
        status = [self._curve.line(), "" if over and output.report else _status(look)]
        content = panes(self._key, output, "\n".join(filter(None, status)))
        if content == self._shown:
            return
        if self._shown is None:
            _show(tabs(self._key, output.tasks), f"{self._key}-tabs")
        _show(content, self._key, update=self._shown is not None)
        self._shown = content


def _show(content: Mapping[str, str], name: str, update: bool = False) -> None:
    display(content, raw=True, display_id=name, update=update)  # type: ignore[no-untyped-call]


def _status(look: RunSnapshot) -> str:
    return status_line(look.status, time.time(), WIDTH) or f"run {look.run.run_id} {look.state}"


class PlainDisplay:
    """Prints the output of a command that shows no tasks, such as `up -d`."""

    def __init__(self) -> None:
        self._printed = 0

    def __call__(self, output: CellOutput, look: RunSnapshot | None, over: bool) -> None:
        """Print the new lines of the output."""
        new = output.report[self._printed :]
        self._printed += len(new)
        if new:
            print("\n".join(new))
