"""Draws every state of the page at four widths, light and dark, as sheets in build/pictures/: `make pictures`.

The runs are histories of tests, so that each state stands still while it is drawn. A red line is the end of the first
screen.
"""

from __future__ import annotations

import base64
import io
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from PIL import Image, ImageDraw
from run import ROOT

sys.path.append(str(ROOT))

from tests.page import gallery
from tests.page.browser import Browser, Served

SHEETS = ROOT / "build" / "pictures"
SIZES = {1600: 1000, 1280: 800, 1000: 800, 420: 900}
SCHEMES = ("light", "dark")
TALLEST = 5000  # pixels of a picture
GAP = 24
SETTLED = 0.35  # seconds for the curves to be drawn anew after the width has changed
MINUTES = 15.0  # for all sheets; they take less than half of that on 2 cores


def draw(names: list[str]) -> None:
    """Draw the states that are named, or all of them."""
    SHEETS.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * MINUTES
    wanted = {name: make for name, make in gallery.STATES.items() if not names or name in names}
    if unknown := set(names) - wanted.keys():
        sys.exit(f"Unknown states: {', '.join(sorted(unknown))}. Known: {', '.join(gallery.STATES)}.")
    with browsing() as browser:
        for number, (name, make) in enumerate(wanted.items(), 1):
            if time.monotonic() > until:
                sys.exit(f"{MINUTES:g} minutes are over; {len(wanted) - number + 1} states are not drawn.")
            _draw(browser, name, make)
            print(f"{number}/{len(wanted)} {name}", flush=True)
    print(f"The sheets are in {SHEETS.relative_to(ROOT)}/.")


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser, which is ended afterwards."""
    browser = Browser()
    try:
        yield browser
    finally:
        browser.end()


def _draw(browser: Browser, name: str, make: Callable[[Path, ExitStack], str]) -> None:
    with tempfile.TemporaryDirectory(prefix="pictures-") as root, ExitStack() as stack:
        path = make(Path(root), stack)
        if path.startswith("file:"):
            _draw_all(browser, name, path)
            return
        served = Served(Path(root))
        try:
            browser.look(*next(iter(SIZES.items())))
            browser.open(served.address(path))
            browser.wait(lambda: browser.all("h1, main.full"), f"the page of {name}")
            time.sleep(1.2)  # for the log and the curves
            _draw_all(browser, name, "")
        finally:
            browser.open("about:blank")
            served.kill()
            served.release()


def _draw_all(browser: Browser, name: str, address: str) -> None:
    if address:
        browser.open(address)
    for scheme in SCHEMES:
        pictures = [_picture(browser, width, height, scheme) for width, height in SIZES.items()]
        sheet = Image.new("RGB", (sum(p.width + GAP for p in pictures), max(p.height for p in pictures)), "#888")
        left = 0
        for picture in pictures:
            sheet.paste(picture, (left, 0))
            left += picture.width + GAP
        sheet.save(SHEETS / f"{name}-{scheme}.png")


def _picture(browser: Browser, width: int, height: int, scheme: str) -> Image.Image:
    """The whole page, with a line where the first screen ends."""
    browser.look(width, height, scheme)
    time.sleep(SETTLED)
    high = min(TALLEST, browser.run("return document.scrollingElement.scrollHeight"))
    wide = browser.run("return document.scrollingElement.scrollWidth")
    clip = {"x": 0, "y": 0, "width": max(wide, width), "height": max(high, height), "scale": 1}
    shot = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    ImageDraw.Draw(picture).line([(0, height), (picture.width, height)], fill="#f00")
    return picture
