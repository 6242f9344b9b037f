"""The address of a run's page has what is shown there: a link, a reload and Back find it again."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.page.browser import Browser, Served
from tests.page.situated import failed, held

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(240)]
PLACE = "?task=worker%3A1&attempt=2&log=%2Fa%2Bb%2F&at=10.00&zoom=5.00~40.00"
ALL = '[aria-label="All of the run"]'


def shown(browser: Browser) -> list[str]:
    """What the page shows: the part, the story, the lines that are asked for."""
    found: list[str] = browser.run(
        """return [String(document.querySelector('[aria-label="All of the run"]').disabled),
        document.querySelector(".moment h2").textContent, document.querySelector("input[aria-label^=Filter]").value,
        document.querySelector('.log .chips [aria-pressed="true"]').textContent,
        document.querySelector("select[aria-label^=Attempt]").value];"""
    )
    return found


def search(browser: Browser) -> str:
    """That part of the address."""
    return str(browser.run("return location.search"))


def test_a_link_a_reload_and_back_find_the_place(home: Path, serve: Callable[..., Served], browser: Browser) -> None:
    """The part of the run that is shown, the moment, and the task, the attempt and the filter of the log."""
    there = ["false", "10.0 s · Recovered: worker:1 was killed by SIGKILL", "/a+b/", "worker:1", "2"]
    with held(home, failed(3)) as run:
        served = serve()
        browser.open(served.address(f"/run/{run.path.name}{PLACE}"))
        browser.wait(lambda: browser.all(".pill"), "the page")
        browser.wait(lambda: shown(browser) == there, "the place of the link")
        browser.driver.refresh()
        browser.wait(lambda: browser.all(".pill"), "the page")
        browser.wait(lambda: shown(browser) == there, "the same place")
        assert search(browser) == PLACE
        browser.click(ALL)
        browser.wait(lambda: "zoom" not in search(browser), "another address")
        browser.click(".moment button", "Latest")
        browser.wait(lambda: "at=" not in search(browser), "another one")
        browser.click(".log .chips .chip", "worker:0")
        browser.wait(lambda: "worker%3A0" in search(browser), "another one")
        browser.driver.back()
        browser.driver.back()
        browser.wait(lambda: shown(browser) == ["true", *there[1:]], "the whole run, and that moment")
        browser.driver.back()
        browser.wait(lambda: shown(browser) == there, "the first place")
        browser.driver.forward()
        browser.wait(lambda: shown(browser) == ["true", *there[1:]], "the second one")


def test_hostile_places_show_the_run(home: Path, serve: Callable[..., Served], browser: Browser) -> None:
    """Whatever is in the address: the page is there, and nothing of it is taken for markup."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    browser.expected.append("log.* - Failed to load resource")  # a filter that is no regular expression
    values = [
        "",
        "~",
        "NaN~1",
        "1~1e999",
        "-5~3",
        "1e300",
        "-1",
        "<img src=x onerror=alert(1)>",
        "/(/",
        "\x00\u202e",
        "worker:1",
    ]
    with held(home, failed(3)) as run:
        served = serve()
        for _ in range(12):
            noise = [quote("".join(map(chr, chance.choices(range(1, 0x3000), k=9)))), *map(quote, values)]
            names = ["task", "attempt", "log", "at", "zoom", "toString", "__proto__"]
            asked = "&".join(f"{name}={chance.choice(noise)}" for name in chance.sample(names, 5))
            browser.open("about:blank")
            browser.open(served.address(f"/run/{run.path.name}?{asked}"))
            browser.wait_text(".pill", "failed")
            browser.wait(lambda: browser.all(".tasks tbody[data-task]"), asked)
            assert not browser.driver.find_elements("css selector", "img")
