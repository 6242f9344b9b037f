"""The dashboard's HTTP routes and their handlers."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import math
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from clusterkit import __version__
from clusterkit.page.acts import NotAllowed, act
from clusterkit.page.bundle import bundled
from clusterkit.page.downloads import log_download
from clusterkit.page.live import LiveRun, OpenRun, RunOpener
from clusterkit.page.logbook import BadQuestion, Wanted
from clusterkit.page.logs import BadCursor
from clusterkit.page.metrics import CONTENT_TYPE, exposition
from clusterkit.page.model.board import json_text, map_text
from clusterkit.page.model.overview import CampaignList, Overview
from clusterkit.page.report_file import page_files
from clusterkit.page.streams import EventStream, StreamSlots, TooMany, log_messages, run_messages, together
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RUN_ID, NoSuchRun, RunStore
from clusterkit.system.files import end_of
from clusterkit.system.searching import TooSlow
from clusterkit.text.printable import printable_lines
from clusterkit.words.errors import ClusterkitError

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
LONGEST_BODY = 1 << 16  # the maximum size of a request's body, in bytes
LONGEST = 4 << 20  # bytes; only the end of a longer file is shown
JSON = "application/json"
NO_STORE = {"cache-control": "no-store"}
MOST_SCRAPED = 20  # an answer has the metrics of at most this many live runs, the newest
MOST_PARTS = 64  # a stream has at most this many parts
_NAME = re.compile(r"\d{1,9}", re.ASCII)
MOST_NAMES = 200  # the maximum number of curves in one answer
MOST_POINTS = 5000  # the maximum number of points of a curve in one answer
# The HTTP status for each error whose text is sent to the client. The most specific class applies.
REFUSALS: Mapping[Any, int] = {
    NotAllowed: 403, NoSuchRun: 404, BadQuestion: 400, BadCursor: 400, TooSlow: 400, TooMany: 503, ClusterkitError: 409,
    ClientDisconnect: 400,
}  # fmt: skip
Mapped = Mapping[str, str]


def run_file(run: RunDirectory, kind: str, name: str) -> str:
    """Return the end of a file in the run's directory, with control characters made visible. Raises NoSuchRun."""
    listed = run.all_stacks.iterdir() if kind == "stacks" and run.all_stacks.is_dir() else ()
    path = next((path for path in listed if path.name == name), None)
    if path is None:
        raise NoSuchRun(f"The run {run.run_id} has no such file.")
    try:
        return printable_lines(end_of(path, LONGEST).decode(errors="replace"))
    except OSError:
        raise NoSuchRun(f"The run {run.run_id} no longer has this file.") from None


class PageFile(NamedTuple):
    """A file of the page, which is compressed once, before the first request."""

    text: str
    packed: bytes  # the text, compressed with gzip
    kind: str
    tag: str  # the value of the ETag header

    @classmethod
    def of(cls, name: str, text: str) -> PageFile:
        data = text.encode()
        tag = f'W/"{hashlib.sha256(data).hexdigest()[:24]}"'
        return cls(text, gzip.compress(data, mtime=0), TYPES[Path(name).suffix], tag)


class Dashboard:
    """Answers requests without blocking the event loop. If `control` is True, requests may control runs."""

    def __init__(self, store: RunStore, control: bool = False) -> None:
        self._control = control
        self._store = store
        self._overview, self._campaigns = Overview(store), CampaignList(store)
        self._runs = RunOpener(store)
        self.slots = StreamSlots()
        self._files = {name: PageFile.of(name, text) for name, text in bundled(page_files()).items()}

    def app(self) -> ASGIApp:
        run = "/api/run/{run}"
        routes = [
            Route("/", self.index),
            Route("/run/{run}", self.index),
            Route("/campaign/{campaign}", self.index),
            Route("/compare/{runs}", self.index),
            Route("/static/{name:path}", self.static),
            Route("/api/config", self.config),
            Route("/api/runs", self.runs),
            Route("/api/campaigns", self.campaigns),
            Route("/api/campaign/{campaign}", self.campaign),
            Route("/metrics", self.metrics),
            Route("/api/follow", self.follow),
            Route(f"{run}/entities", self.entities),
            Route(f"{run}/stream", self.stream),
            Route(f"{run}/series", self.series),
            Route(f"{run}/log", self.log),
            Route(f"{run}/log/stream", self.log_stream),
            Route(f"{run}/file/{{kind}}/{{name}}", self.file),
            Route(f"{run}/act", self.act, methods=["POST"]),
        ]
        handlers: dict[Any, Any] = {404: _not_found, 500: _failed, **dict.fromkeys(REFUSALS, _refused)}
        app = Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers)
        app.router.redirect_slashes = False
        return GZipMiddleware(app, compresslevel=6)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        await self._runs.close()

    async def index(self, request: Request) -> Response:
        """Return the HTML page. The page's script reads the address to decide what to show."""
        return self._file("index.html", request)

    async def static(self, request: Request) -> Response:
        return self._file(request.path_params["name"], request)

    def _file(self, name: str, request: Request) -> Response:
        if (file := self._files.get(name)) is None:
            return Response(json.dumps({"error": "The page has no such file."}), 404, media_type=JSON)
        headers = {"cache-control": "no-cache", "etag": file.tag, "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == file.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(file.text, media_type=file.kind, headers=headers)
        return Response(file.packed, media_type=file.kind, headers={**headers, "content-encoding": "gzip"})

    async def config(self, request: Request) -> Response:
        return _json(json.dumps({"version": __version__, "control": self._control}))

    async def runs(self, request: Request) -> Response:
        rows = await asyncio.to_thread(self._overview.rows)
        entities = ",".join(f"{json.dumps(key)}:{json_text(row)}" for key, row in rows.items())
        return _json(f'{{"entities":{{{entities}}}}}')

    async def campaigns(self, request: Request) -> Response:
        return _json(f'{{"entities":{json_text(await asyncio.to_thread(self._campaigns.rows))}}}')

    async def campaign(self, request: Request) -> Response:
        name = request.path_params["campaign"]
        return _json(f'{{"entities":{json_text(await asyncio.to_thread(self._campaigns.entities, name))}}}')

    async def metrics(self, request: Request) -> Response:
        live = await asyncio.to_thread(lambda: [run for run in self._store.all() if run.is_live()])
        found = [await (await self._runs.open(run.run_id)).watched.ask(LiveRun.scraped) for run in live[-MOST_SCRAPED:]]
        text = await asyncio.to_thread(exposition, found)
        return Response(text, media_type=CONTENT_TYPE, headers=NO_STORE)

    async def entities(self, request: Request) -> Response:
        """Return all entities of a run. Its id may be shortened, as on the command line."""
        try:
            opened = await self._opened(request)
        except NoSuchRun:
            prefix = request.path_params["run"]
            if not RUN_ID.fullmatch(prefix):
                raise
            found = await asyncio.to_thread(self._runs_with, prefix)
            if len(found) != 1:
                raise
            opened = await self._open(found[0])
        return _json(await opened.watched.ask(_entities_of))

    def _runs_with(self, prefix: str) -> list[str]:
        return [run.run_id for run in self._store.all() if run.run_id.startswith(prefix)]

    async def stream(self, request: Request) -> EventStream:
        """Stream the changes of a run's entities. A client without a journal offset first gets all entities."""
        opened = await self._opened(request)
        text = request.headers.get("last-event-id") or request.query_params.get("from") or ""
        return EventStream(run_messages(opened.watched, _offset_of(text)), self.slots)

    async def follow(self, request: Request) -> EventStream:
        """Stream what several pages follow, over one connection: browsers open only six to a server.

        The parameter `parts` is a JSON object that maps a name to each part: {"run": ID, "from": OFFSET} for the
        changes of a run since an offset, or with a "log" of the parameters of a query the lines since a cursor.
        """
        parts = _parts_of(request.query_params.get("parts", ""))
        return EventStream(together({name: self._part(part) for name, part in parts.items()}, self.slots), self.slots)

    async def _part(self, part: Mapped) -> AsyncIterator[str]:
        opened = await self._open(part["run"])
        if "log" not in part:
            messages = run_messages(opened.watched, _offset_of(part.get("from", "")))
        else:
            wanted = Wanted.parse(dict(parse_qsl(part["log"])))
            opened.logs.check(wanted)
            cursor = part.get("from") or "end"
            if cursor == "end":
                cursor = await asyncio.to_thread(opened.logs.end, wanted)
            messages = log_messages(opened.logs, wanted, cursor)
        async with aclosing(messages):  # type: ignore[type-var]
            async for text in messages:
                yield text

    async def series(self, request: Request) -> Response:
        opened = await self._opened(request)
        query = request.query_params
        names = query.getlist("name")
        begin, end = _number(query, "begin", float("-inf")), _number(query, "end", float("inf"))
        points = int(min(max(_number(query, "points", 800), 1), MOST_POINTS))
        if len(names) > MOST_NAMES:
            raise BadQuestion(f"A request may name at most {MOST_NAMES} curves.")
        return _json(await opened.watched.ask(lambda live: _series_of(live, names, begin, end, points)))

    async def log(self, request: Request) -> Response:
        opened, query = await self._opened(request), request.query_params
        wanted = Wanted.parse(query)
        if query.get("at"):
            page = await asyncio.to_thread(opened.logs.page_at, wanted, _number(query, "at", 0.0))
        else:
            page = await asyncio.to_thread(opened.logs.page, wanted, query.get("from"), query.get("before"))
        return _json(json.dumps(page))

    async def log_stream(self, request: Request) -> EventStream:
        """Stream the log lines after a cursor. Without a cursor, stream only lines that are written from now on."""
        opened, query = await self._opened(request), request.query_params
        wanted = Wanted.parse(query)
        opened.logs.check(wanted)
        cursor = request.headers.get("last-event-id") or query.get("from") or "end"
        if cursor == "end":
            cursor = await asyncio.to_thread(opened.logs.end, wanted)
        return EventStream(log_messages(opened.logs, wanted, cursor), self.slots)

    async def file(self, request: Request) -> Response:
        opened, kind, name = await self._opened(request), request.path_params["kind"], request.path_params["name"]
        if kind == "log":
            return await asyncio.to_thread(log_download, opened.run, name)
        text = await asyncio.to_thread(run_file, opened.run, kind, name)
        return Response(text, media_type="text/plain; charset=utf-8", headers=NO_STORE)

    async def act(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LONGEST_BODY:
                return _problem(413, "The request is too long.")
        opened = await self._opened(request)
        if not self._control:
            raise NotAllowed
        return _json(json.dumps({"text": await act(opened, body)}))

    async def _opened(self, request: Request) -> OpenRun:
        return await self._open(request.path_params["run"])

    async def _open(self, run_id: str) -> OpenRun:
        self.slots.note_use()
        if not RUN_ID.fullmatch(run_id):
            raise NoSuchRun("This is not a run id.")
        return await self._runs.open(run_id)


def _entities_of(live: LiveRun) -> str:
    """Return all entities of a run as JSON, with the time and the offset from which a client follows the changes."""
    now = round(live.model.seconds(time.time()), 3)
    entities = map_text(live.model.board.all())
    return f'{{"entities":{entities},"now":{json.dumps(now)},"offset":{live.model.settled}}}'


def _parts_of(text: str) -> dict[str, dict[str, str]]:
    """Parse the parts of a stream. Raises BadQuestion."""
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError):
        raise BadQuestion("`parts` must be a JSON object.") from None
    if not isinstance(parts, dict) or len(parts) > MOST_PARTS:
        raise BadQuestion(f"`parts` must be a JSON object with at most {MOST_PARTS} parts.")
    for name, part in parts.items():
        if not _NAME.fullmatch(name) or not isinstance(part, dict) or not isinstance(part.get("run"), str):
            raise BadQuestion("Each part must have a number as its name, and a run.")
        if not all(isinstance(value, str) for value in part.values()):
            raise BadQuestion("The fields of a part must be texts.")
    return parts


def _offset_of(text: str) -> int:
    """Parse the offset from which a client wants changes; -1 if it wants all entities."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else -1


def _json(text: str) -> Response:
    return Response(text, media_type=JSON, headers=NO_STORE)


async def _refused(request: Request, error: Exception) -> Response:
    return _problem(next(REFUSALS[kind] for kind in type(error).__mro__ if kind in REFUSALS), str(error))


async def _not_found(request: Request, error: Exception) -> Response:
    return _problem(404, "There is nothing at this address.")


async def _failed(request: Request, error: Exception) -> Response:
    return _problem(500, "The dashboard failed to answer this. Its log says why.")


def _problem(status: int, text: str) -> Response:
    return Response(json.dumps({"error": text}), status, media_type=JSON, headers=NO_STORE)


def _number(query: Mapped, name: str, usual: float) -> float:
    with suppress(ValueError):
        value = float(query.get(name) or usual)
        if not math.isnan(value):
            return value
    raise BadQuestion(f"`{name}` must be a number.")


def _series_of(live: LiveRun, names: list[str], begin: float, end: float, points: int) -> str:
    found = {}
    for name in dict.fromkeys(names):
        of, _, task = name.rpartition("/")
        if (curve := live.model.curve(of, task, points, (begin, end))) is not None:
            found[name] = curve
    return json.dumps({"series": found})
