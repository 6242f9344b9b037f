"""Many tabs of the page at once: a browser has six connections to a server, which all tabs share."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from clusterkit.page.app import Dashboard
from clusterkit.page.safety import Safety, Tokens
from clusterkit.store.store import RunStore
from tests.histories import job
from tests.page.browser import Browser, Served
from tests.page.histories import beginning, progress, written
from tests.page.situated import Held, held, training

Serve = Callable[..., Served]
TABS = 6
PORT = 8091
TOKENS = Tokens.new(control=False)


@pytest.fixture
def two(home: Path) -> Iterator[list[Held]]:
    """Two live runs."""
    with held(home, training(2), "one") as one, held(home, training(3), "other") as other:
        yield [one, other]


def says(run: Held, text: str) -> None:
    """A task of the run writes a line."""
    task = run.told.job.tasks[0]
    log = run.run.log(task, 1)
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as file:
        file.write(f"{text}\n".encode())
        size = file.tell()
    with run.run.arrivals.open("a") as arrivals:
        arrivals.write(f"{time.time():.6f} {task} 1 {size}\n")


def tab_at(browser: Browser, handle: str) -> Browser:
    """The browser, in that tab."""
    browser.driver.switch_to.window(handle)
    return browser


@pytest.fixture
def tabs(two: list[Held], serve: Serve, browser: Browser) -> Iterator[list[str]]:
    """Six tabs of the two runs in turn; closed but for the first one afterwards."""
    served = serve()
    for number in range(TABS):
        if number:
            browser.driver.switch_to.new_window("tab")
        browser.open(served.address(f"/run/{two[number % 2].path.name}"))
    handles = list(browser.driver.window_handles)
    yield handles
    for handle in handles[1:]:
        tab_at(browser, handle).driver.close()
    tab_at(browser, handles[0])


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.timeout(240)
def test_six_tabs_follow_their_runs_and_logs(two: list[Held], tabs: list[str], browser: Browser) -> None:
    """Each shows its own run, and its new lines once; a tab that is closed takes nothing from the others."""
    for number, handle in enumerate(tabs):
        tab_at(browser, handle).wait_text(".pill", "training")
        assert len(browser.all(".tasks tbody[data-task]")) == 2 + number % 2
    for run in two:
        says(run, f"the first line of {run.path.name}")
    for number, handle in enumerate(tabs):
        tab_at(browser, handle).wait_text(".rows", f"the first line of {two[number % 2].path.name}")
    tab_at(browser, tabs.pop()).driver.close()
    for run in two:
        says(run, f"another line of {run.path.name}")
    for number, handle in enumerate(tabs):
        tab_at(browser, handle).wait_text(".rows", f"another line of {two[number % 2].path.name}")
        assert browser.text(".rows").count("the first line") == 1
        assert browser.text(".rows").count("another line") == 1


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Asks a dashboard of a run that is over."""
    store = RunStore(tmp_path_factory.mktemp("home"))
    spec = job(workers=1)
    run = written(store.path / "over", spec, [*beginning(spec), *progress(spec.tasks[0], 20)])
    run.of_task(spec.tasks[0]).mkdir()
    run.log(spec.tasks[0], 1).write_bytes(b"a line\n")
    with TestClient(Safety(Dashboard(store).app(), TOKENS, PORT), base_url=f"http://127.0.0.1:{PORT}") as made:
        made.headers["authorization"] = f"Bearer {TOKENS.reading}"
        yield made


BAD_PARTS = (
    *("", "[]", "{", '{"x": {}}', '{"1": []}', '{"1": {}}', '{"1": {"run": 3}}'),
    '{"1": {"run": "over", "from": 5}}',
)


@pytest.mark.parametrize("parts", [*BAD_PARTS, json.dumps({str(n): {"run": "over"} for n in range(65)})])
def test_bad_parts_are_refused_with_a_sentence(client: TestClient, parts: str) -> None:
    """Whatever they are."""
    answer = client.get("/api/follow", params={"parts": parts})
    assert answer.status_code == 400
    assert answer.json()["error"].endswith(".")
