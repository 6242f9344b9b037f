"""Decides, for all commands, whether colors are shown."""

from __future__ import annotations

from collections.abc import Mapping

HELP = (
    "Colors, those of the tasks too; the log files keep them all. NO_COLOR and FORCE_COLOR in the environment decide "
    "where neither is given."
)


def is_notebook(environment: Mapping[str, str]) -> bool:
    """Return whether `!` in a notebook started this process: its output looks like a terminal, but only shows text.

    ipykernel sets these variables, and with them FORCE_COLOR, which therefore is not a choice of the user.
    """
    return [environment.get(name) for name in ("TERM", "PAGER", "GIT_PAGER")] == ["xterm-color", "cat", "cat"]


def wants_color(asked: bool | None, environment: Mapping[str, str], is_terminal: bool) -> bool:
    """Return whether to show colors: the user's choice, else the usual environment variables, else on a terminal."""
    if asked is not None:
        return asked
    if environment.get("NO_COLOR"):
        return False
    if is_notebook(environment):
        return False
    if environment.get("FORCE_COLOR") or environment.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return is_terminal and environment.get("TERM") != "dumb"
