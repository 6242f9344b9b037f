"""The page of an exam in a browser: it can be read in light and dark and at any width, and its filter works."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.page import gallery
from tests.page.browser import Browser

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(240)]


@pytest.fixture
def opened(tmp_path: Path, browser: Browser) -> Browser:
    """The page of an exam with cells of all grades."""
    with ExitStack() as stack:
        browser.open(gallery.exam(tmp_path, stack))
    return browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_it_can_be_read(opened: Browser, scheme: str, width: int) -> None:
    """axe-core finds nothing wrong, and nothing but tables scrolls sideways."""
    opened.look(width, 900, scheme)
    assert opened.violations() == []
    assert opened.run("return document.scrollingElement.scrollWidth - innerWidth") <= 0
    ground = opened.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground.removeprefix("rgb(").rstrip(")").split(", "))) < 3 * 128) == (scheme == "dark")


def test_the_filter(opened: Browser) -> None:
    """By grade and by chapter; with the keyboard, too."""
    every = len(opened.all("article"))
    opened.click("label", "failed (2)")
    assert [one.text for one in opened.all("article h3")] == [
        f"✘ survival/kill/worker:{number}/saving-write" for number in range(2)
    ]
    opened.click("fieldset + fieldset label", "repeat")
    assert opened.all("article") == []
    opened.press("ARROW_LEFT")
    opened.click("label", "all (")
    assert len(opened.all("article")) == every
