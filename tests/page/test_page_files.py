"""The page's files: modules that load nothing from elsewhere, and never take text for markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clusterkit.page.bundle import STYLES
from tests.page.test_page_palette import STATIC

OURS = sorted(path for path in STATIC.iterdir() if path.is_file())
MODULES = [path for path in OURS if path.suffix == ".js"]
# What would run or parse a text, or is refused by the page's Content-Security-Policy.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|"
    r"DOMParser|srcdoc|setAttribute\(\"style\"|\bstyle=\"|\.cssText|import\((?!\"\./vendor/)"
)
ELSEWHERE = re.compile(r"(?:https?:)?//[\w.-]+\.\w+|@import|url\(")
LATER = re.compile(r"import\(\"([^\"]+)\"\)")  # when it is used first
IMPORT = re.compile(r"^import (?:[\w{}, \n]+ from )?\"([^\"]+)\";", re.M)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_a_file_loads_nothing_from_elsewhere(path: Path) -> None:
    """The page works without a network, and tells nobody of a run."""
    text = path.read_text().replace("http://www.w3.org/2000/svg", "")
    assert ELSEWHERE.findall(text) == []


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_a_file_takes_no_text_for_markup(path: Path) -> None:
    """Text is set as text, and styles by properties, so that the policy can forbid everything inline."""
    assert FORBIDDEN.findall(path.read_text()) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    """As the modules of Python here."""
    assert path.read_text().startswith("// ")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_imports_are_relative_and_there(path: Path) -> None:
    """A report inlines the modules: their imports are plain, beside them or in vendor/."""
    names = IMPORT.findall(path.read_text())
    assert len(names) == len(re.findall(r"^import\b", path.read_text(), re.M))
    for name in names + LATER.findall(path.read_text()):
        assert re.fullmatch(r"\./(vendor/)?[\w.]+\.js", name)
        assert (STATIC / name).is_file()


def test_every_file_is_used() -> None:
    """The page loads an icon, what requests data ahead, and two bundles: of all styles, and of all modules."""
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"\"/static/([^\"]+)\"", page) == ["first.js", "icon.svg", "bundle.css", "bundle.js"]
    starts = {STATIC / "app.js", STATIC / "worker.js"}  # the page's, and the one of the worker that all tabs share
    used = {STATIC / "icon.svg", *starts, *(STATIC / name for name in STYLES)}
    used |= imported(STATIC / "app.js") | imported(STATIC / "worker.js")
    assert {path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".svg")} == used


def imported(path: Path) -> set[Path]:
    """The modules that a module imports, directly or not."""
    found: set[Path] = set()
    new = [path] if path.suffix == ".js" else []
    while new:
        text = new.pop().read_text()
        names = IMPORT.findall(text) + LATER.findall(text)
        known = {(STATIC / name).resolve() for name in names}
        new += known - found
        found |= known
    return found


def test_what_is_vendored_has_its_licence_beside_it() -> None:
    """uPlot is MIT: its notice goes wherever its code goes."""
    assert "Leon Sorokin" in (STATIC / "vendor" / "uPlot.LICENSE").read_text()
    assert "uPlot (v1.6.32)" in (STATIC / "vendor" / "uPlot.esm.js").read_text()[:300]
