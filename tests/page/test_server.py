"""The server with real runs: watched while they are killed, asked again after a restart, and nothing left behind."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.commands import Clusterkit
from tests.support import CHILDREN, Command, Up, processes_of, wait_until
from tests.terminal import on_terminal

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(120)]
WITHIN = 60.0  # seconds


@dataclass
class Browser:
    """What a page does: opens the address with the token, asks, and follows a stream in a thread."""

    address: str
    known: dict[str, Any] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=list)
    over: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.place = urlsplit(self.address)
        self.token = self.place.fragment.removeprefix("token=")

    def ask(
        self, method: str, path: str, body: bytes | None = None, offset: int | None = None
    ) -> http.client.HTTPResponse:
        """Send a request; the answer is open."""
        connection = http.client.HTTPConnection(self.place.netloc, timeout=WITHIN)
        own = {"authorization": f"Bearer {self.token}"}
        own |= {} if offset is None else {"last-event-id": str(offset)}
        connection.request(method, path, body, {**own, "origin": f"http://{self.place.netloc}"})
        return connection.getresponse()

    def get(self, path: str) -> http.client.HTTPResponse:
        """The answer to a GET, read to its end."""
        answer = self.ask("GET", path)
        self.body = answer.read()
        return answer

    def json(self, path: str) -> Any:
        """What is answered, as JSON."""
        assert self.get(path).status == 200, self.body
        return json.loads(self.body)

    def follow(self, run: str, offset: int | None = None) -> threading.Thread:
        """Follow a run in a thread until its stream ends."""
        answer = self.ask("GET", f"/api/run/{run}/stream", offset=offset)
        assert answer.status == 200

        def read() -> None:
            try:
                for line in answer:
                    self._take(line.decode().rstrip("\n"))
            except (OSError, http.client.HTTPException, ValueError):
                pass
            finally:
                answer.close()
                self.ended.set()

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    def _take(self, line: str) -> None:
        if line.startswith("id: "):
            self.offsets.append(int(line[4:]))
        elif line == "event: over":
            self.over = True
        elif line.startswith('data: {"set"'):
            for key, entity in json.loads(line[6:])["set"].items():
                if entity is None:
                    self.known.pop(key, None)
                else:
                    self.known[key] = entity


def opened(command: Command) -> Browser:
    """A browser at the address in the file that `clusterkit dashboard` names, or that a run keeps for `ps`."""

    def printed() -> str | None:
        named = re.search(r"\(with its token: (\S+)\)", command.output)
        file = command.run / "dashboard" if isinstance(command, Up) else named and Path(named[1])
        text = file.read_text() if file and file.exists() else ""
        found = re.search(r"http://127\.0\.0\.1:\d+/\S*token=\S+", text)
        return found[0] if found else None

    return Browser(wait_until(printed, WITHIN, lambda: f"an address in {command.output!r}"))


def test_a_run_whose_supervisor_is_killed_while_one_looks_is_lost_and_stays_to_be_seen(
    up: Callable[..., Up], clusterkit: Callable[..., Command], tmp_path: Path
) -> None:
    """A client that connects to the next server where it left off has what one has that connects anew."""
    run = up("--workers", "2", CHILDREN / "reports.py", tmp_path / "stop")
    run.wait_for_step(20)
    first = clusterkit("dashboard")
    browser = opened(first)
    assert list(browser.json("/api/runs")["entities"]) == [f"run/{run.run.name}"]
    reader = browser.follow(run.run.name)
    wait_until(lambda: (browser.known.get("run") or {}).get("step", 0) > 100, WITHIN, "steps on the page")
    first.signal(signal.SIGINT)
    assert first.wait(WITHIN) == 0
    reader.join(WITHIN)
    assert not browser.over
    os.kill(run.supervisor, signal.SIGKILL)
    second = clusterkit("dashboard", run.run.name)
    again = opened(second)
    again.known = browser.known
    again.follow(run.run.name, browser.offsets[-1])
    assert again.ended.wait(WITHIN)
    assert again.over
    entities = again.json(f"/api/run/{run.run.name}/entities")["entities"]
    assert again.known == entities  # with what tasks used, which the supervisor kept
    assert again.offsets == sorted(again.offsets)
    assert (entities["run"]["state"], entities["run"]["phase"]) == ("lost", "over")
    assert entities["attempt/worker:0/1"]["end"] is not None
    second.signal(signal.SIGTERM)
    assert second.wait(WITHIN) == 0
    assert "Traceback" not in first.output + second.output


def test_a_dashboard_beside_a_run_shows_its_end_acts_on_it_and_leaves_nothing(
    up: Callable[..., Up], home: Path, tmp_path: Path
) -> None:
    """What is asked on the page is seen on it; the token is in no command line, journal, log or environment."""
    run = up("--workers", "2", "--dashboard-control", CHILDREN / "reports.py", tmp_path / "stop")
    browser = opened(run)
    run.wait_for("Spawned", task="worker:1")
    token = browser.token
    name = run.run.name
    browser.follow(name)
    for what in processes_of(home).items():
        assert token not in str(what)
        assert token.encode() not in Path(f"/proc/{what[0]}/environ").read_bytes()
    act = f"/api/run/{name}/act"
    answer = browser.ask("POST", act, json.dumps({"verb": "pause", "tasks": ["worker:1"]}).encode())
    assert (answer.status, answer.read()) == (200, b'{"text": "Paused: worker:1."}')
    wait_until(lambda: browser.known.get("task/worker:1", {}).get("state") == "paused", WITHIN, "the pause on the page")
    assert browser.ask("POST", act, json.dumps({"verb": "down"}).encode()).status == 200
    run.wait(WITHIN)
    assert browser.ended.wait(WITHIN)
    assert (browser.over, browser.known["run"]["state"]) == (True, "stopped")
    assert {one["how"] for key, one in browser.known.items() if key.startswith("attempt/")} == {"ended"}
    assert token not in (run.run / "journal.jsonl").read_text() + run.output
    assert f"The dashboard is open at http://127.0.0.1:{browser.place.port}/run/{name}. " in run.output
    assert f"`clusterkit ps {name}`" in run.output
    assert not (run.run / "dashboard").exists()
    assert (run.run / "dashboard.log").read_text() == ""
    wait_until(lambda: processes_of(home) == {}, 20, "the end of the page, which nobody looks at any more")


def test_a_run_does_not_notice_that_its_dashboard_is_killed(up: Callable[..., Up], home: Path, tmp_path: Path) -> None:
    """It says so once, and ends well."""
    run = up("--workers", "1", "--dashboard", CHILDREN / "reports.py", tmp_path / "stop")
    opened(run)
    (pid,) = [pid for pid, argv in processes_of(home).items() if "clusterkit.page.companion" in argv]
    os.kill(pid, signal.SIGKILL)
    run.wait_for("DashboardLost")
    (tmp_path / "stop").touch()
    assert run.wait(WITHIN) == 0
    assert run.output.count("The dashboard is not available") == 1
    assert processes_of(home) == {}


def test_the_token_of_a_run_in_the_background_is_in_no_file_but_its_own(
    ck: Clusterkit, home: Path, tmp_path: Path
) -> None:
    """`ps` prints it on a terminal only; console.log and what goes into a pipe have the address without it."""
    run = ck.up("--workers", "1", "--dashboard", CHILDREN / "reports.py", tmp_path / "stop")
    file = run / "dashboard"
    wait_until(lambda: file.exists() and file.read_text().strip(), WITHIN, "the address")
    address, _, token = file.read_text().strip().partition("#token=")
    assert file.stat().st_mode & 0o777 == 0o600
    assert f"Dashboard: {address} (with its token: {file})" in ck("ps", run.name).out
    assert json.loads(ck("ps", "--json", run.name).out)["dashboard"] == address
    assert token not in ck("ps", run.name).out + ck("ps", "--json", run.name).out
    with on_terminal(home, "ps", run.name, columns=200) as shown:
        assert f"Dashboard: {address}#token={token}" in shown.finish()
    wait_until(lambda: address in (run / "console.log").read_text(), WITHIN, "the address in the log")
    ck("down", run.name)
    held = [path for path in run.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
    assert held == []
