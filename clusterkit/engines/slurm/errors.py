"""What goes wrong with Slurm."""

from __future__ import annotations

from clusterkit.text.printable import printable
from clusterkit.words.errors import ClusterkitError

LONGEST = 100  # characters of an answer that are shown


class SlurmError(ClusterkitError):
    """Slurm can't do what it was asked for, or does not answer."""


class ControllerAway(SlurmError):
    """Slurm's controller does not answer. It may recover; running jobs do not need it."""


class UnexpectedAnswer(SlurmError):
    """Slurm's command printed output in an unknown format."""

    def __init__(self, command: str, answer: str) -> None:
        shown = printable(answer[:LONGEST].replace("\n", " "))
        super().__init__(f"{command} printed something unexpected: {shown!r}. Is it a wrapper of the site's?")
