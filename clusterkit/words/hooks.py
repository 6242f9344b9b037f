"""Hooks: commands of the user that run when something has happened in a run."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Hook(enum.StrEnum):
    """What a command can be run for."""

    FAILURE = "failure"
    RECOVERY = "recovery"
    STALL = "stall"
    END = "end"

    @property
    def flag(self) -> str:
        """The option that names its command."""
        return f"--on-{self}"


@dataclass(frozen=True, slots=True)
class Hooks:
    """The command of each hook, for `/bin/sh -c`; None: none."""

    failure: str | None = None
    recovery: str | None = None
    stall: str | None = None
    end: str | None = None

    @property
    def commands(self) -> dict[Hook, str]:
        """Those that are given."""
        every = {Hook.FAILURE: self.failure, Hook.RECOVERY: self.recovery, Hook.STALL: self.stall, Hook.END: self.end}
        return {hook: command for hook, command in every.items() if command is not None}
