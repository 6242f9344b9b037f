"""The dashboard's token is kept for the next server, in a file that nobody else can read or put there."""

from __future__ import annotations

import random
import re
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterkit.page.safety import kept_token
from tests.page.browser import Browser, Served
from tests.page.situated import held, training
from tests.support import Command, wait_until

NETWORK = "stream.* - Failed to load resource|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|net::ERR_"


def test_the_token_is_kept_in_a_private_file(tmp_path: Path) -> None:
    """The next server has the same one."""
    file = tmp_path / "token"
    token = kept_token(file)
    assert (file.stat().st_mode & 0o777, file.read_text()) == (0o600, token)
    assert kept_token(file) == token
    assert kept_token(tmp_path / "other") != token


def test_what_is_no_private_token_is_replaced(tmp_path: Path) -> None:
    """Whatever is in its place: bytes, a file that others can read, a link; what a link points to stays as it is."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance, file = random.Random(seed), tmp_path / "token"
    good = kept_token(tmp_path / "good")
    for noise in [b"", b"x" * 31, good.encode() + b"\n", *(chance.randbytes(chance.randrange(200)) for _ in range(50))]:
        file.write_bytes(noise)
        file.chmod(0o600)
        assert re.fullmatch(r"[\w-]{32}", token := kept_token(file), re.ASCII)
        assert token != noise.decode(errors="replace")
        assert file.read_text() == token
    file.chmod(0o640)
    assert kept_token(file) != token
    file.unlink()
    file.symlink_to(tmp_path / "good")
    assert kept_token(file) != good
    assert (tmp_path / "good").read_text() == good
    assert not file.is_symlink()
    file.unlink()
    file.mkdir()
    assert kept_token(file) != kept_token(file)  # it can't be kept
    assert kept_token(tmp_path / "missing" / "token")


@pytest.mark.process
@pytest.mark.slow
def test_the_next_dashboard_on_the_port_has_the_same_address(clusterkit: Callable[..., Command], home: Path) -> None:
    """So that whoever has its page open, or its address, needs no other one."""
    home.mkdir(exist_ok=True)
    with socket.socket() as held_port:
        held_port.bind(("127.0.0.1", 0))
        port = str(held_port.getsockname()[1])
    addresses = []
    for _ in range(2):
        command = clusterkit("dashboard", "--port", port)
        wait_until(lambda: "token=" in command.output, 60, "its address")  # noqa: B023
        addresses.append(command.output.split()[-1])
        command.signal(signal.SIGINT)
        assert command.wait(60) == 0
    assert addresses[0] == addresses[1]


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
        browser.wait_text(".banner", f"clusterkit dashboard --port {served.port}`", 60)
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
