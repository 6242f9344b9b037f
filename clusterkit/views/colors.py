"""Whether colors are shown: one decision for all commands."""

from __future__ import annotations

from collections.abc import Mapping

HELP = (
    "Colors, those of the tasks too; the log files keep them all. NO_COLOR and FORCE_COLOR in the environment decide "
    "where neither is given."
)


def is_notebook(environment: Mapping[str, str]) -> bool:
    """Whether this was started in a notebook by `!`: its terminal is none, and shows no more than text.

    All of this is set by ipykernel, with FORCE_COLOR, which therefore says nothing about what the user wants.
    """
    return [environment.get(name) for name in ("TERM", "PAGER", "GIT_PAGER")] == ["xterm-color", "cat", "cat"]


def wants_color(asked: bool | None, environment: Mapping[str, str], is_terminal: bool) -> bool:
    """The user's choice; otherwise what the environment says, as most tools read it; otherwise colors on a terminal."""
    if asked is not None:
        return asked
    if environment.get("NO_COLOR"):
        return False
    if is_notebook(environment):
        return False
    if environment.get("FORCE_COLOR") or environment.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return is_terminal and environment.get("TERM") != "dumb"
