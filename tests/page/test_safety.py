"""Who may ask what: every route with every method, as a stranger, a foreign page or a rebound name would."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message

from clusterkit.page.app import LONGEST_BODY, Dashboard
from clusterkit.page.safety import HEADERS, VALID, Safety, Tickets, Tokens, new_token
from clusterkit.store.store import RunStore
from tests.histories import job
from tests.page.histories import beginning, progress, written

PORT = 8090
HERE = f"http://127.0.0.1:{PORT}"
TOKENS = Tokens.new(control=True)
TOKEN = TOKENS.strongest
ROUTES = (
    *("/api/config", "/api/runs", "/api/run/over/entities", "/api/ticket?path=/api/run/over/file/stacks/stall-1.txt"),
    *("/api/campaigns", "/api/campaign/nope", "/metrics"),
    *("/api/run/over/stream", "/api/run/over/series?name=step/worker:0", "/api/run/over/log?from=end"),
    *("/api/run/over/log/stream", "/api/run/over/file/stacks/stall-1.txt", "/api/run/over/act", "/nowhere"),
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
PAGES = ("/", "/run/over", "/run/nope", "/campaign/x", "/static/index.html")  # the same for everybody
GRANTED = {"authorization": f"Bearer {TOKEN}"}
ORIGIN = {"origin": HERE}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """One run that is over, with a log full of markup, and a file of stacks."""
    found = RunStore(tmp_path_factory.mktemp("home"))
    spec = job(workers=1)
    (worker,) = spec.tasks
    run = written(found.path / "over", spec, [*beginning(spec), *progress(worker, 20)])
    run.of_task(worker).mkdir()
    text = b"<script>alert(1)</script>\x1b[31mred\x1b[0m\x1b]0;title\x07\n"
    run.log(worker, 1).write_bytes(text)
    run.arrivals.write_bytes(b"1795000000.5 worker:0 1 %d\n" % len(text))
    (run.all_stacks / "stall-1.txt").write_text("frame\x1b[2J\n")
    (found.home / "secret.txt").write_text("secret")
    (run.all_stacks / "link.txt").symlink_to(found.home / "secret.txt")
    return found


@pytest.fixture(params=[False, True])
def client(request: pytest.FixtureRequest, store: RunStore) -> Iterator[TestClient]:
    """Asks a dashboard that only looks, or acts."""
    app = Safety(Dashboard(store, request.param).app(), TOKENS, PORT)
    with TestClient(app, base_url=HERE, follow_redirects=False) as made:
        yield made


@pytest.mark.parametrize("method", METHODS)
def test_nobody_learns_anything_who_may_not(store: RunStore, method: str) -> None:
    """Whatever is asked for: the answer says why not, and the same for what there is and what there is not."""
    app = Safety(Dashboard(store, True).app(), TOKENS, PORT)
    wrong = [
        ({}, 403),
        ({"cookie": f"clusterkit-{PORT}={TOKEN}; token={TOKEN}"}, 403),
        ({"authorization": f"Bearer {new_token()}"}, 403),
        ({"authorization": f"Basic {TOKEN}"}, 403),
        ({"authorization": "Bearer \xff"}, 403),
        ({"authorization": "Bearer "}, 403),
        ({**GRANTED, "host": f"evil.example:{PORT}"}, 421),
        ({**GRANTED, "host": "127.0.0.1"}, 421),
        ({**GRANTED, "host": f"127.0.0.1:{PORT + 1}"}, 421),
        ({**GRANTED, "host": f"127.0.0.1:{PORT}@evil.example"}, 421),
        ({**GRANTED, "origin": "http://evil.example"}, 403),
        ({**GRANTED, "origin": "null"}, 403),
        ({**GRANTED, "origin": f"http://127.0.0.1:{PORT + 1}"}, 403),
        ({**GRANTED, "origin": f"http://localhost:{PORT}"}, 403),
        ({**GRANTED, **ORIGIN, "sec-fetch-site": "cross-site"}, 403),
        ({**GRANTED, **ORIGIN, "sec-fetch-site": "same-site"}, 403),
    ]
    for headers, status in wrong:
        given = [(b"host", f"127.0.0.1:{PORT}".encode())] * ("host" not in headers)
        given += [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        answers = {asyncio.run(asked(app, method, route, given)) for route in ROUTES}
        assert len(answers) == 1, f"{headers} tells routes apart"
        assert answers.pop()[0] == status, headers


async def asked(app: ASGIApp, method: str, route: str, headers: list[tuple[bytes, bytes]]) -> tuple[int, bytes]:
    """The status and the body of an answer, without a client that would be polite."""
    path, _, query = route.partition("?")
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode()}
    sent = list[Message]()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app({**scope, "headers": headers}, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


@pytest.mark.parametrize("method", [one for one in METHODS if one not in ("GET", "HEAD")])
def test_what_changes_something_is_asked_in_one_way_only(client: TestClient, method: str) -> None:
    """By POST, at one address, and by the page itself."""
    for route in ROUTES:
        answer = client.request(method, route, headers={**GRANTED, **ORIGIN})
        if method == "POST" and route.endswith("/act"):
            assert answer.status_code in (400, 403)
        else:
            assert answer.status_code == 405, route
        assert client.request(method, route, headers=GRANTED).status_code == 403, "without an origin"


@pytest.mark.slow
def test_who_has_the_token_sees_and_every_answer_is_guarded(client: TestClient) -> None:
    """No answer may be put into a frame, be read by others, or run a script."""
    for route in (*ROUTES, *PAGES):
        answer = client.get(route, headers=GRANTED)
        assert answer.status_code in (200, 404, 405), route
        assert "set-cookie" not in answer.headers
        for name, value in HEADERS:
            assert answer.headers[name.decode()] == value.decode()
        assert "access-control-allow-origin" not in answer.headers
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy


def test_the_page_is_given_to_everybody_and_says_nothing(client: TestClient) -> None:
    """It is the same whatever it will show; nothing is kept in the browser, and no address carries the token."""
    answers = [client.get(path) for path in PAGES]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert not [answer for answer in answers if "set-cookie" in answer.headers]
    for path in PAGES:
        assert client.get(path, headers={"host": "evil.example"}).status_code == 421
        assert client.post(path, headers=ORIGIN).status_code == 403
    for path in ("/api/runs", "/api/run/over/entities", "/metrics"):
        assert client.get(f"{path}?token={TOKEN}").status_code == 403
    assert client.post(f"/api/run/over/act?token={TOKEN}", headers=ORIGIN).status_code == 403


def test_a_ticket_opens_one_file_for_a_while(client: TestClient) -> None:
    """Whoever has one, and no token, gets that file and nothing else, and can't change anything."""
    file, other = "/api/run/over/file/stacks/stall-1.txt", "/api/run/over/file/stacks/stall-2.txt"
    ticket = client.get("/api/ticket", params={"path": file}, headers=GRANTED).json()["ticket"]
    assert client.get(file, params={"ticket": ticket}).text.startswith("frame")
    assert client.get(f"{file}?ticket={ticket}&ticket={ticket}").status_code == 403
    for path in (other, "/api/run/over/log", "/api/runs", "/api/ticket", f"{file}/", "/metrics"):
        assert client.get(path, params={"ticket": ticket, "path": file}).status_code == 403, path
    assert client.post(f"/api/run/over/act?ticket={ticket}", headers=ORIGIN).status_code == 403
    foreign = {"origin": "http://evil.example"}
    assert client.get(file, params={"ticket": ticket}, headers=foreign).status_code == 403
    for path in ("/api/runs", "/api/run/over/act", "/api/run/over/log", "", "/etc/passwd"):
        assert client.get("/api/ticket", params={"path": path}, headers=GRANTED).json() == {"ticket": ""}


@given(
    ticket=st.text(max_size=90) | st.from_regex(r"\d{1,12}\.[0-9a-f]{64}", fullmatch=True), path=st.text(max_size=60)
)
def test_tickets_cannot_be_guessed_or_stretched(ticket: str, path: str) -> None:
    """Nothing that the server has not issued is one, and what it has issued ends."""
    now = [100.0]
    tickets = Tickets(lambda: now[0])
    file = "/api/run/over/file/stacks/stall-1.txt"
    assert not tickets.admits(ticket, file)
    assert not tickets.admits(ticket, path)
    real = tickets.issue(file)
    until, _, seal = real.partition(".")
    assert tickets.admits(real, file)
    assert not tickets.admits(f"{int(until) + 1}.{seal}", file)
    assert not Tickets(lambda: now[0]).admits(real, file)
    now[0] += VALID + 1
    assert not tickets.admits(real, file)


def test_who_may_only_see_runs_changes_nothing(store: RunStore) -> None:
    """The token for reading sees everything, and is refused with a sentence where something would change."""
    app = Safety(Dashboard(store, True).app(), TOKENS, PORT)
    granted = {"authorization": f"Bearer {TOKENS.reading}"}
    with TestClient(app, base_url=HERE) as asking:
        assert asking.get("/api/runs", headers=granted).status_code == 200
        answer = asking.post("/api/run/over/act", json={"verb": "down"}, headers={**granted, **ORIGIN})
        assert (answer.status_code, answer.json()["error"]) == (
            403,
            "This token lets you see runs, but not control them.",
        )
        allowed = asking.post("/api/run/over/act", json={"verb": "down"}, headers={**GRANTED, **ORIGIN})
        assert allowed.status_code == 409, "it is over"
    assert TOKENS.reading not in TOKEN


def test_the_server_proves_that_it_knows_the_token(client: TestClient) -> None:
    """To whoever asks, without the token; each question, port and token has another proof, and no proof has a token."""
    nonces = ["a" * 16, "b" * 64]
    proofs = [client.get("/api/proof", params={"nonce": nonce}).json() for nonce in nonces]
    assert proofs == [TOKENS.proof(nonce, PORT) for nonce in nonces]
    other = [TOKENS.proof(nonces[0], PORT + 1), Tokens.new(control=True).proof(nonces[0], PORT)]
    values = [value for proof in (*proofs, *other) for value in proof.values()]
    assert len(set(values)) == 8
    assert not [value for value in values if value and (TOKEN[:16] in value or TOKENS.reading[:16] in value)]
    assert Tokens.new(control=False).proof("a" * 16, PORT)["control"] is None
    for nonce in ("", "a" * 15, "a" * 65, "ä" * 20, "a" * 20 + "\n"):
        assert client.get("/api/proof", params={"nonce": nonce}).status_code == 400
    assert client.post("/api/proof", headers=ORIGIN).status_code == 403
    assert client.get("/api/proof?nonce=" + "a" * 16, headers={"origin": "http://evil.example"}).status_code == 403


def test_the_page_has_one_address(client: TestClient) -> None:
    """Another user may listen on ::1, where browsers look for localhost first; programs may ask by either name."""
    for name in ("localhost", "[::1]"):
        host = {"host": f"{name}:{PORT}"}
        for path in ("/", "/run/over?at=3&zoom=1~2", "/campaign/a%20b"):
            answer = client.get(path, headers=host)
            assert (answer.status_code, answer.headers["location"]) == (307, f"{HERE}{path}")
        assert client.get("/api/runs", headers={**host, **GRANTED}).status_code == 200


def test_tokens_cannot_be_guessed() -> None:
    """128 bits at least, and never the same."""
    assert len({new_token() for _ in range(100)}) == 100
    assert len(secrets.token_urlsafe(16)) <= len(new_token())


PATHS = ("....//", "%2e%2e/job.json", "..%2fjob.json", "/etc/passwd", "%00", "nope")


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_out_of_what_is_listed(client: TestClient, path: str) -> None:
    """Of a run, of the page, of the store."""
    files = "/api/run/over/file"
    for place in (f"{files}/stacks/{path}", f"{files}/{path}/x", f"/static/{path}", f"/api/run/{path}/log"):
        answer = client.get(place, headers=GRANTED)
        assert answer.status_code in (400, 404), place
        assert "root:" not in answer.text
        assert "secret" not in answer.text


def test_files_of_a_run_are_text_and_no_links(client: TestClient) -> None:
    """With what a terminal would act on made visible."""
    answer = client.get("/api/run/over/file/stacks/stall-1.txt", headers=GRANTED)
    assert (answer.text, answer.headers["content-type"]) == ("frame␛[2J\n", "text/plain; charset=utf-8")
    assert client.get("/api/run/over/file/stacks/link.txt", headers=GRANTED).status_code == 404


def test_markup_in_a_log_stays_text(client: TestClient) -> None:
    """It is sent as JSON, colors are kept, and other sequences are made visible."""
    answer = client.get("/api/run/over/log?from=end", headers=GRANTED)
    assert answer.headers["content-type"] == "application/json"
    (one,) = answer.json()["lines"]
    assert one["text"] == "<script>alert(1)</script>\x1b[31mred\x1b[0m␛]0;title␇"
    assert one["t"] == 0.5


def test_bad_questions_get_a_sentence(client: TestClient) -> None:
    """And no traceback."""
    bad = (
        *("log?limit=x", "log?limit=0", "log?task=w", "log?attempt=0&task=worker:0", "log?grep=(&regex=1"),
        *("log?from=x", "log?before=1e5", f"log?grep={'x' * 2000}", "log/stream?grep=(&regex=1"),
        *("series?begin=x", "series?points=nan", "series?" + "&".join(f"name={number}" for number in range(300))),
    )
    for query in bad:
        answer = client.get(f"/api/run/over/{query}", headers=GRANTED)
        assert answer.status_code == 400, query
        assert answer.json()["error"].endswith((".", "'")), answer.text
    long = client.get("/api/runs?" + "x" * 10_000, headers=GRANTED)
    assert long.status_code == 414


def test_acts_are_checked_before_anything_is_asked_of_a_run(store: RunStore) -> None:
    """All of it as a sentence; without `--control` nothing is done at all."""
    bodies = (
        *(b"", b"[]", b"{", b"\xff", b"[" * 50_000, b'{"verb": 5}', b'{"verb": "hello"}', b'{"verb": "kill", "x": 1}'),
        *(b'{"verb": "kill", "tasks": "worker:0"}', b'{"verb": "kill", "tasks": ["worker"]}', b'{"verb": "fault"}'),
        *(b'{"verb": "fault", "fault": "nonsense"}', b'{"verb": "fault", "fault": "kill ps:7"}'),
    )
    for control in (False, True):
        app = Safety(Dashboard(store, control).app(), TOKENS, PORT)
        with TestClient(app, base_url=HERE) as asking:
            headers = {**GRANTED, **ORIGIN}
            for body in bodies:
                answer = asking.post("/api/run/over/act", content=body, headers=headers)
                assert answer.status_code == (400 if control else 403), body
                assert answer.json()["error"]
            over = asking.post("/api/run/over/act", json={"verb": "down"}, headers=headers)
            assert over.status_code == (409 if control else 403)
            assert ("is not live" in over.json()["error"]) is control
            long = asking.post("/api/run/over/act", content=b"x" * (LONGEST_BODY + 1), headers=headers)
            assert long.status_code == 413


def test_streams_are_bounded_in_number(store: RunStore) -> None:
    """The answer to one too many says so, and a place is free again when a stream has ended."""
    dashboard = Dashboard(store)
    app = Safety(dashboard.app(), TOKENS, PORT)
    with TestClient(app, base_url=HERE) as asking:
        while dashboard.slots.taken < 64:
            dashboard.slots.reserve()
        answer = asking.get("/api/run/over/stream", headers=GRANTED)
        assert (answer.status_code, "Too many" in answer.json()["error"]) == (503, True)
        dashboard.slots.release()
        full = asking.get("/api/run/over/stream", headers=GRANTED)
        assert full.status_code == 200
        end = (store.path / "over/journal.jsonl").stat().st_size
        assert full.text.endswith(f"event: over\nid: {end}\ndata: {{}}\n\n")
        assert dashboard.slots.taken == 63
