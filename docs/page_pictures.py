"""Draws the dashboard's page of a real run in which a worker and a ps are killed, and the page of an exam."""

from __future__ import annotations

import io
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from run import ROOT, Place

if TYPE_CHECKING:
    from tests.page.browser import Browser

UP = """clusterkit up --detach --workers 2 --ps 1 --fault "kill worker:1 @ step=300" --fault "kill ps:0 @ step=800" \
    workloads/ps_train.py --steps 20000"""
FLAWED = ROOT / "tests/children/flawed/saves.py"
EXAM = "clusterkit exam --budget 4m --workers 2 --seed 7 -o exam.html train.py written_in_place"
EXAM_SIZE = (1000, 880)
SEEN_FROM = 1200  # the step from which the page is drawn
WITHIN = 600.0  # seconds for the run to get there
SIZES = {1600: 1120, 1000: 1500}
COLORS = 256  # of the palette: the page has few, and shades of them at the edges of letters, which count less


def draw(place: Place, pictures: Path) -> None:
    """Draw the page at two widths, light and dark, while the run is live."""
    sys.path.append(str(ROOT))
    from tests.page.browser import Browser

    run = re.findall(r"^\S+$", place.run(UP), re.M)[-1]  # among lines about what to type next
    words = ["clusterkit", "dashboard", "--control", run]
    served = subprocess.Popen(words, cwd=place.work, env=place.environment, stdout=subprocess.PIPE, text=True)
    browser = Browser()
    try:
        assert served.stdout is not None
        (file,) = re.findall(r"with its token: (\S+)\)", served.stdout.readline())
        browser.open(Path(file).read_text().strip())
        _wait_for_step(browser)
        for width, height in SIZES.items():
            for scheme in ("light", "dark"):
                browser.look(width, height, scheme)
                time.sleep(1.5)  # for the curves, which are fetched once a second
                _save(browser, pictures / f"page-{width}-{scheme}.png")
    finally:
        browser.end()
        served.send_signal(signal.SIGTERM)
        served.wait(20)
        place.run(f"clusterkit down --kill {run}")


def draw_exam(place: Place, pictures: Path) -> None:
    """Draw the page of an exam of a program that writes its checkpoint in place."""
    sys.path.append(str(ROOT))
    from tests.page.browser import Browser

    shutil.copy(FLAWED, place.work / "train.py")
    place.run(EXAM)
    browser = Browser()
    try:
        browser.look(*EXAM_SIZE)
        browser.open((place.work / "exam.html").as_uri())
        _save(browser, pictures / "exam.png")
    finally:
        browser.end()


def _wait_for_step(browser: Browser) -> None:
    until = time.monotonic() + WITHIN
    while int(re.sub(r"\D", "", browser.text(".fact.step b").partition("/")[0]) or 0) < SEEN_FROM:
        if time.monotonic() > until:
            sys.exit(f"The run is not at step {SEEN_FROM} after {WITHIN:g} s:\n{browser.text('body')}")
        time.sleep(0.2)


def _save(browser: Browser, path: Path) -> None:
    shot = Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")
    colors = Counter(zip(*[iter(shot.tobytes())] * 3, strict=True))
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for color, _ in colors.most_common(COLORS) for part in color])
    shot.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)
