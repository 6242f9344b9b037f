"""Event streams, as browsers' EventSource reads them: bounded in number, and closed for a client that does not read."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from clusterkit.page.live import WatchedRun
from clusterkit.page.logbook import LogBook, Wanted
from clusterkit.page.searching import TooSlow
from clusterkit.words.errors import ClusterkitError

MOST = 64  # streams at a time
FAREWELL = 0.5  # seconds to send the end of a stream when the server ends
STUCK = 15.0  # seconds that a client may take to read a message
HEARTBEAT = 10.0  # seconds without a message after which a comment is sent
APART = 0.25  # seconds between two messages, at least
LOOK_EVERY = 0.1  # seconds between two checks for changes or new log lines
MOST_PER_LOOK = 20_000  # characters of logs per check
Ended = Callable[[], None]


class TooMany(ClusterkitError):
    """No further stream is allowed."""

    def __init__(self) -> None:
        super().__init__("Too many pages are open already. Close some of them.")


class Places:
    """Bounds the number of streams."""

    def __init__(self) -> None:
        self.taken = 0
        self.ending = asyncio.Event()  # set when the server ends, to end all streams

    def take(self) -> None:
        """Take a place for a stream. Raises TooMany."""
        if self.taken >= MOST:
            raise TooMany
        self.taken += 1

    def leave(self) -> None:
        self.taken -= 1


class EventStream:
    """A response that sends messages until there are no more, the client disconnects, or the server ends."""

    def __init__(self, messages: AsyncIterator[str], places: Places) -> None:
        self._messages = messages
        self._places = places
        places.take()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(scope, send))

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        tasks = [sending, asyncio.create_task(gone()), asyncio.create_task(self._places.ending.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._places.leave()
        if self._places.ending.is_set() and sending.cancelled():
            with suppress(TimeoutError, RuntimeError, OSError):
                await asyncio.wait_for(send({"type": "http.response.body", "body": b""}), FAREWELL)
        elif not sending.cancelled() and (error := sending.exception()) is not None:
            raise error

    async def _send(self, scope: Scope, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
        pack = None
        if "gzip" in Headers(scope=scope).get("accept-encoding", ""):  # messages repeat much of earlier messages
            pack = zlib.compressobj(wbits=31)
            headers.append((b"content-encoding", b"gzip"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            async with aclosing(self._messages) as messages:  # type: ignore[type-var]
                async for text in messages:
                    sent = text.encode()
                    if pack is not None:
                        sent = pack.compress(sent) + pack.flush(zlib.Z_SYNC_FLUSH)
                    body = {"type": "http.response.body", "body": sent, "more_body": True}
                    await asyncio.wait_for(send(body), STUCK)
            end = b"" if pack is None else pack.flush()
            await asyncio.wait_for(send({"type": "http.response.body", "body": end}), STUCK)
        except TimeoutError:
            abort: Callable[[], Any] | None = scope.get("state", {}).get("abort")
            if abort is not None:
                abort()


def message(data: str, offset: object = None, event: str = "") -> str:
    """Format a message with JSON in one line; the browser sends `offset` back as Last-Event-ID."""
    head = f"event: {event}\n" * bool(event) + (f"id: {offset}\n" if offset is not None else "")
    return f"{head}data: {data}\n\n"


async def run_messages(watched: WatchedRun, offset: int) -> AsyncIterator[str]:
    """Yield the changes of a run after an offset of its journal, -1 for all entities, until the run is over."""
    yield "retry: 1000\n\n"
    clock = asyncio.get_running_loop().time
    version: int | None = None
    quiet_since = clock()
    while True:
        began, new = clock(), await watched.message(version, offset)
        version = new.version
        if new.text:
            quiet_since = clock()
            yield message(new.text, new.offset)
        if new.gone:
            return
        if new.over:
            yield message("{}", new.offset, "over")
            return
        if clock() - quiet_since > HEARTBEAT:
            quiet_since = clock()
            yield ": \n\n"
        await asyncio.sleep(max(0.0, began + (APART if new.text else LOOK_EVERY) - clock()))


async def log_messages(logs: LogBook, wanted: Wanted, cursor: str) -> AsyncIterator[str]:
    """Yield new lines after a cursor, only the newest of a flood, until all are sent or a search is too slow."""
    yield "retry: 1000\n\n"
    clock = asyncio.get_running_loop().time
    quiet_since = clock()
    while True:
        began, over = clock(), logs.over
        try:
            page = await asyncio.to_thread(logs.following, wanted, cursor, MOST_PER_LOOK)
        except TooSlow:
            yield message("{}", cursor, "over")
            return
        cursor = page["next"]
        if page["lines"] or page["skipped"]:
            quiet_since = clock()
            yield message(json.dumps(page), cursor)
        elif over and page["done"]:
            yield message("{}", cursor, "over")
            return
        elif clock() - quiet_since > HEARTBEAT:
            quiet_since = clock()
            yield ": \n\n"
        await asyncio.sleep(max(0.0, began + LOOK_EVERY - clock()))
