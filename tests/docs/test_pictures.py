"""`make pictures`: what a terminal shows as SVG, and the pictures that are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support import ROOT, module_at

PICTURES = sorted((ROOT / "docs/pictures").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """docs/pictures.py as a module."""
    pytest.importorskip("pyte", reason="make setup installs it")
    monkeypatch.syspath_prepend(ROOT / "docs")
    return module_at(ROOT / "docs/pictures.py")


def lines_of(picture: str) -> list[str]:
    """The text of a picture, line by line."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for element in ElementTree.fromstring(picture).iter(f"{SVG}text"):
        rows.setdefault(float(element.attrib["y"]), []).append((float(element.attrib["x"]), element.text or ""))
    return ["".join(text for _, text in sorted(row)).replace("\xa0", " ") for _, row in sorted(rows.items())]


def test_a_picture_has_what_the_terminal_shows_at_last(drawing: Any) -> None:
    """Not what was erased or overwritten; with its colors, and markup as text."""
    screen = drawing.pyte.Screen(40, 50)
    output = b"\x1b[1mfirst\x1b[0m [b] & <i>\r\n50%\r100%\x1b[K\r\nstatus\r\x1b[J"
    output += b"\x1b[1;32mgood\x1b[0m\x1b[90m gray\x1b[0m\r\n"
    drawing.pyte.ByteStream(screen).feed(output)
    picture = drawing.picture_of(screen, "name")
    assert [line.rstrip() for line in lines_of(picture)] == ["first [b] & <i>", "100%", "good gray"]
    assert len(set(re.findall(r"name-r\d+ \{ fill: (#\w+)", picture))) == 3
    assert picture == drawing.picture_of(screen, "name")


@pytest.mark.process
def test_a_command_runs_in_a_terminal(drawing: Any, tmp_path: Path) -> None:
    """Of that width; what is typed comes first, and paths are those of a reader."""
    place = drawing.Place(tmp_path)
    command = "tty -s && stty size && \\\n    echo ~/x"
    screen = drawing.screen_of(command, place)
    assert [line.rstrip() for line in screen.display[:4]] == [
        "$ tty -s && stty size && \\",
        "    echo ~/x",
        f"{drawing.ROWS} {drawing.COLUMNS}",
        "~/x",
    ]
    with pytest.raises(SystemExit, match="exited with code 3:\nno luck"):
        drawing.screen_of("echo no luck; exit 3", place)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_of_a_page(picture: Path, drawing: Any) -> None:
    """It shows a command of the script; it loads nothing from elsewhere, and has no path of a machine."""
    text = picture.read_text()
    shown = "\n".join(line.rstrip() for line in lines_of(text))
    assert shown.startswith(f"$ {drawing.COMMANDS[picture.stem]}\n")
    assert "succeeded" in shown
    assert not re.findall(r"/(?:root|home|tmp)/.*", shown)
    assert set(re.findall(r"https?://[^\s\"<]+", text)) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
    assert "@font-face" not in text


def test_every_command_has_a_picture(drawing: Any) -> None:
    """And no picture is left of a command that is gone."""
    assert [path.stem for path in PICTURES] == sorted(drawing.COMMANDS)


def test_pictures_of_the_page_are_small_and_complete() -> None:
    """Two widths, light and dark, as PNG of the width in the name, which a page of docs loads fast."""
    pages = sorted((ROOT / "docs/pictures").glob("page-*.png"))
    assert [path.stem for path in pages] == ["page-1000-dark", "page-1000-light", "page-1600-dark", "page-1600-light"]
    for path in pages:
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG\r\n")
        assert int.from_bytes(data[16:20], "big") == int(path.stem.split("-")[1])
        assert len(data) < 250_000
