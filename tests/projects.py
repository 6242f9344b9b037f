"""A project that tests edit while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.support import CHILDREN

TEXT = (CHILDREN / "edited.py").read_text()


@dataclass
class Project:
    """A directory with a program that is edited, and the versions that its tasks have written."""

    path: Path
    version: int = 0  # the newest, of either file
    program: int = 0
    part: int = 0
    in_place: bool = False  # a file is emptied and written; else it is renamed into its place, as many editors do

    def __post_init__(self) -> None:
        self.path.mkdir()
        self.write_program()
        self.write_part()

    def write_program(self, broken: bool = False, raises: bool = False) -> None:
        """Save a new version of the program."""
        self.version += 1
        self.program = self.version
        text = TEXT.replace("VERSION = 0", f"VERSION = {self.version}")
        text += "def f(:\n" if broken else ""
        text = text.replace("\nstart =", "\nraise ValueError('my bug')\nstart =") if raises else text
        self._save("train.py", text)

    def write_part(self, text: str | None = None) -> None:
        """Save a new version of the module, which has as many bytes as the one before."""
        self.version += 1
        self.part = self.version
        self._save("part.py", f"VERSION = int('{self.version:06d}')\n" if text is None else text)

    def runs(self) -> bool:
        """Whether the last attempt of each task runs the newest version of both files."""
        lines = (self.path / "versions").read_text().splitlines() if (self.path / "versions").exists() else []
        last = {line.split()[0]: tuple(map(int, line.split()[1:3])) for line in lines}
        return len(last) == 2 and set(last.values()) == {(self.program, self.part)}

    def _save(self, name: str, text: str) -> None:
        new = self.path / (name if self.in_place else f".{name}.swp")
        new.write_text(text)
        new.replace(self.path / name)
