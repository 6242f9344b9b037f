"""What another user's server learns from a browser that has a dashboard open: nothing with which it gets in."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from clusterkit.store.store import RunStore
from clusterkit.words import events as ev
from clusterkit.words.reports import Vitals
from tests.histories import job
from tests.page.browser import TOKEN, Browser, Served
from tests.page.histories import beginning, line, progress, written
from tests.page.situated import held, training
from tests.strangers import as_stranger

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(120)]
Serve = Callable[..., Served]
FOREIGN = r"Failed to load resource|Failed to fetch a worker script|blocked by CORS|has been blocked|ERR_|Refused to"


class Stranger(ThreadingHTTPServer):
    """Another user's server on another port of 127.0.0.1, which notes all that browsers send to it."""

    daemon_threads = False  # so that `server_close` waits for them

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.noted: list[str] = []
        self.clients: list[socket.socket] = []
        self.page = b""
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Remember who is connected: the browser keeps connections that it does not use."""
        client, address = super().get_request()
        self.clients.append(client)
        return client, address

    def end(self) -> None:
        """Listen no more, and hang up."""
        self.shutdown()
        self.thread.join(10)
        for client in self.clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    """Answers everything with the stranger's page."""

    server: Stranger

    def do_GET(self) -> None:
        """Note it, and answer."""
        self.server.noted.append(f"{self.requestline}\n{self.headers}")
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(self.server.page)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(self.server.page)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    """It listens while the test runs."""
    made = Stranger()
    yield made
    made.end()


@pytest.fixture
def port_taken() -> Iterator[Callable[[int], Stranger]]:
    """Another user's server listens on a port; its sockets are theirs, where the tests run as root."""
    made: list[Stranger] = []

    def take(port: int) -> Stranger:
        with as_stranger() if os.getuid() == 0 else nullcontext():
            made.append(Stranger(port))
        return made[-1]

    yield take
    for one in made:
        one.end()


@pytest.fixture
def run(home: Path) -> Path:
    """A run that is over, with a file of stacks."""
    spec = job(workers=1)
    seen = {spec.tasks[0]: Vitals(1, True, "S", "waits in recv")}
    stall = [line(40.1, ev.Stalled("No progress for 60 s.", None, 60.0, seen, "stacks/stall-1.txt"))]
    made = written(RunStore(home).path / "over", spec, [*beginning(spec), *progress(spec.tasks[0], 20), *stall])
    (made.all_stacks / "stall-1.txt").write_text("a frame of the program\n")
    return made.path


def test_a_browser_that_has_the_page_open_gives_no_other_port_anything(
    run: Path, serve: Serve, browser: Browser, stranger: Stranger
) -> None:
    """Its requests to another port have no cookie, no header and no referrer with which one gets in."""
    served = serve()
    browser.open(served.address(f"/run/{run.name}"))
    browser.wait_text("h1", r"\.py")
    assert browser.driver.execute_cdp_cmd("Storage.getCookies", {})["cookies"] == []
    assert TOKEN not in browser.driver.current_url
    browser.run("location.href = args[0]", f"http://127.0.0.1:{stranger.server_port}/image.png")
    browser.wait(lambda: stranger.noted, "the browser asks the stranger")
    assert not [one for one in stranger.noted if TOKEN in one or "cookie" in one.lower()]
    browser.expected.append(FOREIGN)


def test_a_strangers_page_gets_nothing_out_of_the_dashboard(
    run: Path, serve: Serve, browser: Browser, stranger: Stranger
) -> None:
    """Nor does the browser send an action for it."""
    served = serve()
    browser.open(served.address(f"/run/{run.name}"))
    browser.wait_text("h1", r"\.py")
    browser.expected.append(FOREIGN)
    browser.open(f"http://127.0.0.1:{stranger.server_port}/")
    answers = browser.run(
        """const ask = (path, options) =>
             fetch(`http://127.0.0.1:${args[0]}${path}`, { credentials: 'include', ...options })
               .then((answer) => `${answer.type} ${answer.status}`, () => 'refused');
        const post = { method: 'POST', body: '{"verb": "down"}' };
        return [
          await ask('/api/runs'), await ask('/api/runs', { mode: 'no-cors' }),
          await ask('/api/run/over/act', post), await ask('/api/run/over/act', { ...post, mode: 'no-cors' }),
          await ask('/api/runs', { headers: { authorization: 'Bearer x' } }),
          sessionStorage.length, document.cookie,
        ];""",
        served.port,
    )
    assert answers == ["refused"] * 5 + [0, ""]


def test_the_page_stays_open_to_its_own_tabs(run: Path, serve: Serve, browser: Browser) -> None:
    """A reload keeps the token, a tab that a link opens has a copy, and a file opens with a ticket of its own."""
    served = serve()
    browser.open(served.address("/"))
    browser.wait_text("table.list", run.name)
    browser.driver.refresh()
    browser.wait_text("table.list", run.name)
    first = browser.driver.current_window_handle
    browser.run(
        """document.querySelector("table.list a")
          .dispatchEvent(new MouseEvent("click", {ctrlKey: true, bubbles: true, cancelable: true}))"""
    )
    browser.wait(lambda: len(browser.driver.window_handles) == 2, "another tab")
    browser.driver.switch_to.window((set(browser.driver.window_handles) - {first}).pop())
    browser.wait_text("h1", r"\.py")
    browser.click("summary", "Stacks of all tasks")
    browser.wait_text(".stall pre", "a frame of the program")
    before = set(browser.driver.window_handles)
    browser.click(".stall button", "Open in a tab")
    browser.expected.append(r"favicon\.ico")  # which the browser asks for by itself, for a page that names none
    browser.wait(lambda: set(browser.driver.window_handles) - before, "another tab")
    browser.driver.switch_to.window((set(browser.driver.window_handles) - before).pop())
    browser.wait_text("body", "a frame of the program")
    assert "stall-1.txt?ticket=" in browser.driver.current_url
    assert TOKEN not in browser.driver.current_url
    for handle in set(browser.driver.window_handles) - {first}:
        browser.driver.switch_to.window(handle)
        browser.driver.close()
    browser.driver.switch_to.window(first)


def test_the_address_of_a_new_server_is_put_into_a_tab_that_is_open(run: Path, serve: Serve, browser: Browser) -> None:
    """A tab without access has it then, and the token is in its address no longer."""
    served = serve()
    browser.expected.append(FOREIGN)
    browser.open(served.address(f"/run/{run.name}", token="f" * 32))
    browser.wait_text("body", "No access")
    browser.run("location.hash = args[0]", f"token={TOKEN}")  # as if the printed address were entered there
    browser.wait_text("h1", r"\.py")
    assert TOKEN not in browser.driver.current_url


def test_a_request_that_a_tab_leaves_behind_loses_no_token(run: Path, serve: Serve, browser: Browser) -> None:
    """Going elsewhere in the middle of an answer is no loss of the connection."""
    served = serve()
    browser.open(served.address(f"/run/{run.name}"))
    browser.wait_text("h1", r"\.py")
    for path in ("/", f"/run/{run.name}", "/") * 3:
        browser.run("location.href = args[0]", path)  # at once, while the page before it still loads
    browser.open(f"http://127.0.0.1:{served.port}/")
    browser.wait_text("table.list", run.name)


def test_a_token_that_the_server_does_not_know_is_not_kept(
    run: Path, serve: Serve, browser: Browser, stranger: Stranger
) -> None:
    """A link on another site can't log the tabs of the dashboard out, nor can a change of the address."""
    served = serve()
    browser.open(served.address(f"/run/{run.name}"))
    browser.wait_text("h1", r"\.py")
    wrong = f"http://127.0.0.1:{served.port}/run/{run.name}#token={'f' * 32}"
    browser.run("location.hash = args[0]", f"token={'f' * 32}")
    browser.wait(lambda: "token" not in browser.driver.current_url, "it is taken out of the address")
    browser.driver.refresh()
    browser.wait_text("h1", r"\.py")
    browser.expected.append(FOREIGN)
    stranger.page = f"<a href='{wrong}'>runs</a>".encode()
    browser.open(f"http://127.0.0.1:{stranger.server_port}/")
    browser.click("a", "runs")
    browser.wait_text("h1", r"\.py")
    browser.open(served.address("/", token="e" * 32))
    browser.wait_text("table.list", run.name)


def test_who_takes_the_port_of_a_server_that_ended_gets_no_token(
    home: Path, serve: Serve, browser: Browser, port_taken: Callable[[int], Stranger]
) -> None:
    """An open page asks them for a proof and sends nothing else; a page of theirs finds nothing."""
    with held(home, training(2)) as live:
        served = serve()
        browser.open(served.address(f"/run/{live.path.name}"))
        browser.wait_text(".pill", "training")
        browser.expected.append(FOREIGN)
        served.kill()
        served.release()
        other = port_taken(served.port)
        browser.run("dispatchEvent(new Event('focus'))")
        browser.wait_text(".banner", "Another server answers at this address", 60)
        browser.wait(lambda: len(other.noted) > 2, "it asks again")
        assert {one.split()[1].partition("?")[0] for one in other.noted} == {"/api/proof"}
        assert not [one for one in other.noted if TOKEN in one or "authorization" in one.lower()]
        assert browser.run("return [JSON.stringify(sessionStorage), JSON.stringify(localStorage)]") == ["{}", "{}"]
        browser.driver.refresh()  # the page is theirs now
        browser.wait(lambda: "GET /run/" in str(other.noted), "the page of the other server")
        assert browser.run("return JSON.stringify(sessionStorage)") == "{}"
