"""Draws docs/pictures/ from what real runs show on a terminal: `make pictures`.

Each command runs in a pseudo-terminal, whose screen is drawn as SVG after the command has ended. A browser draws the
dashboard's page as PNG, and each of its states into build/pictures/.
"""

from __future__ import annotations

import io
import os
import pty
import re
import sys
import tempfile
import termios
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import page_pictures
import page_states
import pyte
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text
from run import Place

PICTURES = Path(__file__).resolve().parent / "pictures"
COMMANDS = {
    "recovery": r"""clusterkit up --quiet --workers 2 --ps 1 --fault "kill worker:1 @ step=300" \
    --fault "kill ps:0 @ step=800" workloads/ps_train.py --steps 1200""",
}
KINDS = ("terminal", "page", "exam", "states")
COLUMNS, ROWS = 100, 200  # more rows than a command fills: nothing scrolls away
DIM = re.compile(rb"\x1b\[2m")  # pyte knows no faint text
GRAY = b"\x1b[90m"
FONTS = re.compile(r"@font-face \{\{.*?\}\}\n", re.S)  # a picture loads nothing from elsewhere


def screen_of(command: str, place: Place) -> pyte.Screen:
    """Run a command in a terminal, and return what the terminal shows afterwards."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    typed = command.replace("\n", "\r\n")
    stream.feed(f"\x1b[1m$ {typed}\x1b[0m\r\n".encode())
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(place.work)
        termios.tcsetwinsize(0, (ROWS, COLUMNS))
        os.execvpe("bash", ["bash", "-c", command], {**place.environment, "TERM": "xterm-256color"})
    shown = b"".join(iter(lambda: _read(terminal), b""))
    os.close(terminal)
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        sys.exit(f"{command} exited with code {code}:\n{shown.decode(errors='replace')}")
    for path, instead in ((place.work, b""), (place.home, b"~/")):
        shown = shown.replace(f"{path}/".encode(), instead)
    stream.feed(DIM.sub(GRAY, shown))
    return screen


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux says EIO once every process has closed it
        return b""


def lines_of(screen: pyte.Screen) -> Iterator[Text]:
    """Yield the lines of a screen up to the last one that has text."""
    last = max(number for number, line in enumerate(screen.display) if line.strip())
    for number in range(last + 1):
        cells = [screen.buffer[number][column] for column in range(screen.columns)]
        line = Text()
        for style, run in groupby(cells, key=style_of):
            line.append("".join(cell.data for cell in run), style)
        line.rstrip()
        yield line


def style_of(cell: pyte.screens.Char) -> str:
    """Return the style of a character in rich's words."""
    name = cell.fg.replace("bright", "bright_").replace("brown", "yellow")
    return " ".join(["bold"] * cell.bold + [name])


def picture_of(screen: pyte.Screen, name: str) -> str:
    """Return a screen as SVG. The file is the same for the same screen."""
    console = Console(record=True, width=screen.columns, file=io.StringIO(), force_terminal=True)
    for line in lines_of(screen):
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    code = FONTS.sub("", CONSOLE_SVG_FORMAT)
    return console.export_svg(title="", theme=DIMMED_MONOKAI, code_format=code, unique_id=name)


def main() -> None:
    """Draw every picture, or those that are named: `terminal`, `page`, `exam`, `states`, or states by their names."""
    PICTURES.mkdir(exist_ok=True)
    wanted = sys.argv[1:] or [*KINDS]
    if states := [name for name in wanted if name not in KINDS]:
        page_states.draw(states)
    elif "states" in wanted:
        page_states.draw([])
    for name, draw in (("page", page_pictures.draw), ("exam", page_pictures.draw_exam)):
        if name not in wanted:
            continue
        with tempfile.TemporaryDirectory(prefix="docs-") as root:
            place = Place(Path(root))
            try:
                draw(place, PICTURES)
            finally:
                place.clean()
    for name, command in COMMANDS.items() if "terminal" in wanted else ():
        with tempfile.TemporaryDirectory(prefix="docs-") as root:
            place = Place(Path(root))
            try:
                picture = picture_of(screen_of(command, place), name)
            finally:
                place.clean()
        (PICTURES / f"{name}.svg").write_text(picture)


if __name__ == "__main__":
    main()
