"""Each start of a dashboard has a token of its own, which is printed on terminals only, and kept in private files."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.page.serve import PageServer
from clusterkit.store.store import RunStore
from tests.page.browser import Browser, Served
from tests.page.situated import held, training
from tests.support import Command, wait_until

NETWORK = "stream.* - Failed to load resource|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|net::ERR_"


def test_the_files_of_a_server_are_private_and_end_with_it(tmp_path: Path) -> None:
    """One has the address, which may control; the other has the token for programs, which only read."""
    store = RunStore(tmp_path / "home")
    server = PageServer(store, control=True)
    with server.published("/run/x") as file:
        assert file is not None
        token = store.dashboard_file(server.port, "token")
        assert (file.read_text(), token.read_text()) == (f"{server.address('/run/x')}\n", f"{server.token}\n")
        assert server.token not in server.address()
        assert {stat.S_IMODE(path.stat().st_mode) for path in (file, token)} == {0o600}
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        with PageServer(store).published("/") as other:
            assert other != file
    assert list(file.parent.iterdir()) == []
    server.end()


def test_a_server_without_a_place_for_its_files_serves_all_the_same(tmp_path: Path) -> None:
    """It says that there is none."""
    (tmp_path / "dashboards").write_text("")
    with PageServer(RunStore(tmp_path)).published("/") as file:
        assert file is None


@pytest.mark.process
@pytest.mark.slow
def test_each_start_on_a_port_has_another_token(clusterkit: Callable[..., Command], home: Path) -> None:
    """Into a pipe, the token is not printed: a private file has it until the dashboard ends."""
    home.mkdir(exist_ok=True)
    with socket.socket() as held_port:
        held_port.bind(("127.0.0.1", 0))
        port = held_port.getsockname()[1]
    file = RunStore(home).dashboard_file(port, "address")
    addresses = []
    for _ in range(2):
        command = clusterkit("dashboard", "--control", "--port", str(port))
        wait_until(lambda: str(file) in command.output, 60, "where its address is")  # noqa: B023
        addresses.append(file.read_text().strip())
        token = addresses[-1].partition("#token=")[2]
        assert re.fullmatch("[0-9a-f]{48}", token)
        assert token not in command.output
        assert "token=" not in command.output
        command.signal(signal.SIGINT)
        assert command.wait(60) == 0
        assert not file.exists()
    assert addresses[0] != addresses[1]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(240)
def test_the_page_of_a_run_that_was_removed_says_so(home: Path, serve: Callable[..., Served], browser: Browser) -> None:
    """It says how to start the server again while that is gone; then it keeps what was read of the run."""
    with held(home, training(3)) as run:
        served = serve()
        browser.open(served.address(f"/run/{run.path.name}"))
        browser.wait_text(".pill", "training")
        browser.expected.append(NETWORK)
        served.kill()
        browser.wait_text(".banner", f"clusterkit dashboard --port {served.port} r shows it again", 60)
        assert browser.text(".pill") == "not known"
        browser.wait_text("header .text", r"At \d\d:\d\d:\d\d it was training")
        assert "clusterkit ps r" in browser.text("header .commands")
        assert "last known" in browser.text(".tasks .note")
        assert not browser.all(".tasks button.act")

    shutil.rmtree(run.path)
    served.again()
    browser.run("dispatchEvent(new Event('focus'))")  # somebody looks: it tries at once
    browser.wait_text(".banner", "This run was removed from the disk.*clusterkit ls")
    assert browser.text(".tasks tbody th").split() == ["worker:0", "worker:1", "worker:2"]
    time = browser.text(".fact.time b")
    browser.run("await new Promise((done) => setTimeout(done, 1100))")
    assert browser.text(".fact.time b") == time


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(240)
def test_a_run_that_is_removed_under_its_page(home: Path, serve: Callable[..., Served], browser: Browser) -> None:
    """The server is still there: the same banner, and nothing moves any more."""
    with held(home, training(3)) as run:
        browser.open(serve().address(f"/run/{run.path.name}"))
        browser.wait_text(".pill", "training")
        browser.expected += [NETWORK, "(?:series|log).* - Failed to load resource"]  # requests that are on their way
        shutil.rmtree(run.path)
    browser.wait_text(".banner", "This run was removed from the disk")
    assert browser.text(".tasks tbody th").split() == ["worker:0", "worker:1", "worker:2"]
