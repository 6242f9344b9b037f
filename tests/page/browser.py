"""A headless Chromium for the tests of the page, and a dashboard for it to look at."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.environment import clean_environment
from tests.support import ROOT, Lazily, wait_until

webdriver = Lazily("selenium.webdriver")
service = Lazily("selenium.webdriver.chrome.service")
actions = Lazily("selenium.webdriver.common.action_chains")
exceptions = Lazily("selenium.common.exceptions")
keys = Lazily("selenium.webdriver.common.keys")

SIZE = (1600, 1000)
CSS = "css selector"
PATIENCE = 30.0  # seconds for what the page does of itself; it takes less than one
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
# Chromium asks its maker about nothing here.
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-default-browser-check",
)
AXE = ROOT / ".venv" / "axe-core-4.14.1" / "axe.min.js"  # `.ci/browser` fetches it
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
TOKEN = "0123456789abcdef" * 2


def why_no_browser() -> str | None:
    """Why there is no browser here; None if there is one."""
    if importlib.util.find_spec("selenium") is None:
        return "selenium is not installed"
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(missing)} can't be found; `.ci/browser` installs Debian's" if missing else None


class Browser:
    """A browser with one window. Every error on its console fails the test, but those that `expected` names."""

    expected: list[str]

    def __init__(self, metered: bool = False) -> None:
        self.place = tempfile.TemporaryDirectory(prefix="browser-")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in (*ARGUMENTS, *QUIET, f"--user-data-dir={self.place.name}/profile"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", **({"performance": "ALL"} if metered else {})})
        self.driver: Any = webdriver.Chrome(options=options, service=service.Service(shutil.which("chromedriver")))
        self.expected = []
        self.look(*SIZE)

    def look(self, width: int, height: int, scheme: str = "light") -> None:
        """Set the size of the page, and light or dark."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def open(self, address: str) -> None:
        """Go there."""
        self.driver.get(address)

    def run(self, script: str, *args: Any) -> Any:
        """What a script returns; it may await."""
        wrapped = (
            f"const done = arguments[arguments.length - 1]; const args = [...arguments]; (async () => {{ {script} }})()"
        )
        found = self.driver.execute_async_script(
            f"{wrapped}.then((value) => done([value]), (error) => done([null, String(error && error.stack || error)]))",
            *args,
        )
        if len(found) > 1:
            raise AssertionError(found[1])
        return found[0]

    def all(self, selector: str) -> list[Any]:
        """The elements of a selector that can be seen."""
        found: list[Any] = self.driver.find_elements(CSS, selector)
        return [one for one in found if one.is_displayed()]

    def text(self, selector: str) -> str:
        """The text of all elements of a selector, as it can be read."""
        texts: list[str] = self.driver.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)", selector
        )
        return "\n".join(texts)

    def wait(self, condition: Callable[[], Any], what: str, deadline: float = PATIENCE) -> Any:
        """The first true value of a condition."""

        def fresh() -> Any:
            try:
                return condition()
            except exceptions.StaleElementReferenceException:  # the page has just replaced it
                return None

        return wait_until(fresh, deadline, lambda: f"{what}; the page says:\n{self.text('body')[:3000]}", 0.05)

    def wait_text(self, selector: str, expected: str, deadline: float = PATIENCE) -> None:
        """Wait until a text that matches the expression can be read there."""
        self.wait(lambda: re.search(expected, self.text(selector)), f"{expected!r} in {selector}", deadline)

    def click(self, selector: str, text: str = "") -> None:
        """Click the first visible element of a selector with that text in it, or in its label."""

        def found() -> Any:
            named = [(one, f"{one.text} {one.get_attribute('aria-label')}") for one in self.all(selector)]
            chosen = next((one for one, name in named if text in name), None)
            if chosen is not None:
                chosen.click()
            return chosen

        self.wait(found, f"{selector} with {text!r}")

    def type(self, selector: str, text: str) -> None:
        """Replace what is in a field."""
        field = self.wait(lambda: self.all(selector), selector)[0]
        field.clear()
        field.send_keys(text)

    def press(self, *pressed: str) -> None:
        """Press keys on what has the focus: their names in selenium, or characters."""
        chain = actions.ActionChains(self.driver)
        for key in pressed:
            chain.send_keys(getattr(keys.Keys, key, key))
        chain.perform()

    def point(self, selector: str, x: int, y: int, click: bool = False) -> None:
        """Move to a place in an element, in pixels from its upper left corner; and click there."""
        element = self.wait(lambda: self.all(selector), selector)[0]
        self.run("args[0].scrollIntoView({block: 'center'})", element)
        half = [int(element.rect[side]) // 2 for side in ("width", "height")]
        chain = actions.ActionChains(self.driver).move_to_element_with_offset(element, x - half[0], y - half[1])
        (chain.click() if click else chain).perform()

    def received(self) -> int:
        """The bytes that came over the network since it was asked last, of a browser that is metered."""
        return sum(one["encodedDataLength"] for one in self._network("dataReceived"))

    def requests(self) -> list[tuple[str, str]]:
        """The path of each request since it was asked last, and of what made it, of a browser that is metered."""

        def path(address: str) -> str:
            return urlsplit(address).path

        made = [(one["request"]["url"], one["initiator"]) for one in self._network("requestWillBeSent")]
        frames = [(url, by.get("stack", {}).get("callFrames", [])) for url, by in made]
        return [(path(url), path(known[0]["url"]) if known else "") for url, known in frames]

    def _network(self, method: str) -> list[dict[str, Any]]:
        said = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [one["params"] for one in said if one["method"] == f"Network.{method}"]

    def violations(self) -> list[str]:
        """What axe-core finds wrong by WCAG 2.2, levels A and AA. Skips where it can't be had."""
        if not AXE.is_file():
            pytest.skip("axe-core was not fetched; `.ci/browser` does that with npm")
        self.driver.execute_script(AXE.read_text())
        found = self.run("return (await axe.run({ runOnly: args[0] })).violations", TAGS)
        return [f"{one['id']}: {node['html'][:200]} {node['failureSummary']}" for one in found for node in one["nodes"]]

    def errors(self) -> list[str]:
        """What the console says that is wrong, and was not expected."""
        entries = self.driver.get_log("browser")
        said = [str(entry["message"]) for entry in entries if entry["level"] in ("SEVERE", "WARNING")]
        return [text for text in said if not any(re.search(pattern, text) for pattern in self.expected)]

    def clear(self) -> None:
        """Forget the page and its cookies."""
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        self.driver.get_log("browser")
        self.expected = []
        self.look(*SIZE)

    def end(self) -> None:
        """Leave no process and no file."""
        self.driver.quit()
        self.place.cleanup()


class Served:
    """A dashboard of a state directory, as a process of its own."""

    def __init__(self, home: Path, control: bool = True, port: int = 0) -> None:
        self.home, self.control = home, control
        home.mkdir(parents=True, exist_ok=True)
        self._held = socket.socket()  # nobody else gets the port between two of its servers
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", port))
        self.start(self._held.getsockname()[1])

    def start(self, port: int) -> None:
        """Start it on a port."""
        words = [sys.executable, "-m", "tests.page.serving", str(self.home), str(port), TOKEN]
        self.process = subprocess.Popen(
            [*words, *["control"] * self.control],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=clean_environment(self.home),
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        address = self.process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), address
        self.port = int(address.split(":")[2].split("/")[0])
        wait_until(self._answers, PATIENCE, "the dashboard listens")

    def address(self, path: str = "/", token: str = TOKEN) -> str:
        """Of a page, with the token."""
        return f"http://127.0.0.1:{self.port}{path}#token={token}"

    def _answers(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """End it at once, as if its machine had."""
        self.process.kill()
        self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def release(self) -> None:
        """Give its port up."""
        self._held.close()

    def again(self) -> None:
        """Start another one in the same place."""
        self.start(self.port)
