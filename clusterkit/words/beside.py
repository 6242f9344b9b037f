"""What runs beside the tasks of a run, as events: TensorBoard, and the dashboard."""

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
