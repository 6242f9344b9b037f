"""What the page loads: files once, packed, and of a stream and of curves only what is new."""

from __future__ import annotations

import http.client
import random
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clusterkit.page import serve
from clusterkit.page.model.board import Curve
from clusterkit.page.model.drawn import Drawn, drawn
from clusterkit.store.store import RunStore
from tests.page.browser import Browser, Served, why_no_browser
from tests.page.situated import Held, held, training
from tests.page.test_page_rules import module

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]
ALWAYS = (float("-inf"), float("inf"))


@pytest.fixture
def run(home: Path) -> Iterator[Held]:
    """One that is live."""
    with held(home, training(3)) as made:
        yield made


@pytest.fixture
def server(run: Held) -> Iterator[serve.PageServer]:
    """That of the run's home."""
    made = serve.PageServer(RunStore(run.path.parent.parent))
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.end()
    thread.join()


def ask(server: serve.PageServer, path: str, **headers: str) -> http.client.HTTPResponse:
    """The answer, open."""
    connection = http.client.HTTPConnection(serve.HOST, server.port, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", path, headers={**named, "authorization": f"Bearer {server.token}"})
    return connection.getresponse()


def test_a_file_is_packed_and_loaded_once(server: serve.PageServer) -> None:
    """Then the browser asks whether it changed, whatever else it says that it has or takes: it gets the same file."""
    plain, packed = ask(server, "/static/bundle.js"), ask(server, "/static/bundle.js", accept_encoding="gzip")
    text, sent = plain.read(), packed.read()
    assert zlib.decompress(sent, 31) == text
    assert len(sent) < len(text) / 3
    tag = packed.getheader("etag")
    assert tag is not None
    again = ask(server, "/static/bundle.js", if_none_match=tag)
    assert (again.status, again.read(), again.getheader("etag")) == (304, b"", tag)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(50):
        noise = "".join(chance.choices('gzip;q=0.5, *"W/\\\x80\xff\t' + tag, k=chance.randrange(1, 60))).strip()
        answer = ask(server, "/static/bundle.js", if_none_match=noise, accept_encoding=noise)
        body, kind = answer.read(), answer.getheader("content-encoding")
        assert (answer.status, zlib.decompress(body, 31) if kind == "gzip" else body) == (200, text), noise


def test_a_stream_is_packed_message_by_message(server: serve.PageServer, run: Held) -> None:
    """Each can be read when it comes, and what repeats takes next to nothing."""
    answer = ask(server, f"/api/run/{run.path.name}/stream", accept_encoding="gzip")
    unpack, text, sizes = zlib.decompressobj(31), "", list[tuple[int, int]]()
    while len(sizes) < 4:
        sent = answer.read1()
        new = unpack.decompress(sent).decode()
        text += new
        if '"now":' in new:
            sizes.append((len(new), len(sent)))
    answer.close()
    assert '"run":{"id":"r"' in text
    assert sum(packed for _, packed in sizes) < sum(plain for plain, _ in sizes) / 4


@pytest.mark.browser
@pytest.mark.slow
def test_the_data_is_requested_while_the_scripts_are_loaded(run: Held, serve: Callable[..., Served]) -> None:
    """Once, by the script that runs first; the others take the answers."""
    if (why := why_no_browser()) is not None:
        pytest.skip(f"no browser here: {why}")
    browser, place = Browser(metered=True), f"/run/{run.path.name}"
    try:
        browser.open(serve().address(place))
        browser.wait(lambda: browser.all(".tasks tbody[data-task]"), "tasks")
        made = browser.requests()
        assert browser.errors() == []
    finally:
        browser.end()
    for path in (f"/api{place}/entities", "/api/config"):
        assert [by for asked, by in made if asked == path] == ["/static/first.js"], made


@pytest.mark.browser
@pytest.mark.slow
def test_curves_by_increments_are_the_curves(browser: Browser, serve: Callable[..., Served]) -> None:
    """Of random reports, with silences, fetched at random moments: what the page has is what it would fetch at once."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    cases = [increments(chance) for _ in range(40)]
    browser.open(serve().address())
    fold = "return args[0].map((answers) => answers.reduce((a, b) => m.continued(a, b)))"
    found = module(browser, "series", fold, [answers for answers, _ in cases])
    for number, (points, (_, expected)) in enumerate(zip(found, cases, strict=True)):
        assert points == expected, number


def increments(chance: random.Random) -> tuple[list[Drawn], Drawn]:
    """The answers to a page that asks from 5 s before its newest point, and the answer to one that asks for all."""
    curve, at, answers = Curve(), 0.0, list[Drawn]()

    def answer(begin: float = ALWAYS[0]) -> Drawn:
        return drawn(curve.points(begin, ALWAYS[1], 2000), [], at, usual=curve.usual(2000))

    def newest() -> float:
        return max(one["t"][-1] or 0.0 for one in answers)

    for number in range(chance.randrange(25, 400)):
        at = round(at + chance.choice([0.1, 0.1, 0.1, 0.2, 0.3, chance.uniform(2, 9) * (chance.random() < 0.05)]), 3)
        curve.add(at, float(number))
        if number == 20:
            answers.append(answer())
        elif answers and chance.random() < 0.1:
            answers.append(answer(newest() - 5))
    return [*answers, answer(newest() - 5)], answer()
