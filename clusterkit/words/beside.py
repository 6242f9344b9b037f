"""What runs beside the tasks of a run, as events: TensorBoard, the dashboard, and who watches the program's files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorBoardReady:
    """TensorBoard, which was asked for, answers at this address."""

    address: str


@dataclass(frozen=True, slots=True)
class TensorBoardLost:
    """TensorBoard is not available, or not any more, and why. The run continues."""

    why: str


@dataclass(frozen=True, slots=True)
class DashboardReady:
    """The dashboard, which was asked for, answers at this address; who opens it needs the token, which is not here."""

    address: str


@dataclass(frozen=True, slots=True)
class DashboardLost:
    """The dashboard is not available, or not any more, and why. The run continues."""

    why: str


@dataclass(frozen=True, slots=True)
class ProgramChanged:
    """Files of the program, or modules of its own, were saved, created, renamed or deleted.

    `files` are relative to the program's directory if they are below it; `ago` is how many seconds before that was
    seen. `problem` is a clause: why the program can't run as it is now. `same`: the files are as they were at the last
    change without a problem, or when the run began.
    """

    files: tuple[str, ...]
    ago: float = 0.0
    problem: str = ""
    same: bool = False
