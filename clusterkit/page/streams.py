"""Streams of server-sent events. Limits the number of streams, and closes streams that clients don't read."""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from clusterkit.page.live import WatchedRun
from clusterkit.page.logbook import LogBook, Wanted
from clusterkit.store.store import NoSuchRun
from clusterkit.system.searching import TooSlow
from clusterkit.words.errors import ClusterkitError

MOST = 64  # the maximum number of streams that are open at once
FAREWELL = 0.5  # seconds; the time limit for closing a stream when the server shuts down
STUCK = 15.0  # seconds; the maximum time that a client may take to read a message
HEARTBEAT = 10.0  # seconds; after this long without a message, a comment is sent
RENEW_AFTER = 8.0  # seconds; how long a stream of several parts lasts while the server lingers
SIGN_EVERY = 4.0  # seconds; after this long without a message, a stream of several parts has a comment
APART = 0.25  # seconds; the minimum time between two messages
LOOK_EVERY = 0.1  # seconds between checks for changes or new log lines
MOST_PER_LOOK = 20_000  # the maximum number of characters of logs that are sent per check
Ended = Callable[[], None]


class TooMany(ClusterkitError):
    """The maximum number of streams is open."""

    def __init__(self) -> None:
        super().__init__("Too many pages are open already. Close some of them.")


class StreamSlots:
    """Limits the number of streams."""

    def __init__(self) -> None:
        self.taken = 0
        self.lingers = False  # True if the server ends once no page is open
        self._used = float("-inf")  # the monotonic time at which a stream ended last, or a page asked
        self.ending = asyncio.Event()  # set when the server shuts down, to end all streams

    def reserve(self) -> None:
        """Reserve a slot for a stream. Raises TooMany if all slots are taken."""
        if self.taken >= MOST:
            raise TooMany
        self.taken += 1

    def release(self) -> None:
        self.taken -= 1
        self.note_use()

    def note_use(self) -> None:
        """Note that a page is there, which may not have opened its stream yet."""
        self._used = time.monotonic()

    @property
    def unused_for(self) -> float:
        """Return for how many seconds no stream has been open, and no page has asked for anything."""
        return 0.0 if self.taken else time.monotonic() - self._used


class EventStream:
    """A response that sends messages until all messages are sent, the client disconnects, or the server shuts down."""

    def __init__(self, messages: AsyncIterator[str], slots: StreamSlots) -> None:
        self._messages = messages
        self._slots = slots
        slots.reserve()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(scope, send))

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        tasks = [sending, asyncio.create_task(gone()), asyncio.create_task(self._slots.ending.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._slots.release()
        if self._slots.ending.is_set() and sending.cancelled():
            with suppress(TimeoutError, RuntimeError, OSError):
                await asyncio.wait_for(send({"type": "http.response.body", "body": b""}), FAREWELL)
        elif not sending.cancelled() and (error := sending.exception()) is not None:
            raise error

    async def _send(self, scope: Scope, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
        pack = None
        # Messages resemble each other, so a stream compresses well.
        if "gzip" in Headers(scope=scope).get("accept-encoding", ""):
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


async def together(parts: Mapping[str, AsyncIterator[str]], slots: StreamSlots) -> AsyncIterator[str]:
    """Yield the messages of several streams, each with a field `of` that names its stream.

    It does not end by itself, except that a server that lingers for its pages has each of them ask again from time to
    time: a browser may keep the connection of a page that is gone.

    A part that fails with a ClusterkitError ends with an event `refused`. Without messages, comments are sent, so that
    a client notices a connection that is dead, and so that the server knows which clients are there.
    """
    ready = asyncio.Queue[str](maxsize=1)  # a client that reads slowly slows down what is read for it

    async def forward(name: str, messages: AsyncIterator[str]) -> None:
        try:
            async with aclosing(messages):  # type: ignore[type-var]
                async for text in messages:
                    await ready.put(f"of: {name}\n{text}")
            # A client that was told of the end takes no notice of this.
            await ready.put(f"of: {name}\n{refused(NoSuchRun('This run was removed.'))}")
        except ClusterkitError as error:
            await ready.put(f"of: {name}\n{refused(error)}")

    tasks = [asyncio.create_task(forward(name, messages)) for name, messages in parts.items()]
    began = time.monotonic()
    try:
        yield ": \n\n"
        while not (slots.lingers and time.monotonic() - began > RENEW_AFTER):
            try:
                yield await asyncio.wait_for(ready.get(), SIGN_EVERY)
            except TimeoutError:
                yield ": \n\n"
            for task in tasks:
                if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                    raise error
        yield message("{}", event="renew")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def refused(error: ClusterkitError) -> str:
    """Format the message that ends a part of a stream which can't be answered."""
    missing = isinstance(error, NoSuchRun)
    return message(json.dumps({"error": str(error), "missing": missing}), event="refused")


def message(data: str, offset: object = None, event: str = "") -> str:
    """Format a message that contains one line of JSON. A client that reconnects sends `offset` as Last-Event-ID."""
    head = f"event: {event}\n" * bool(event) + (f"id: {offset}\n" if offset is not None else "")
    return f"{head}data: {data}\n\n"


async def run_messages(watched: WatchedRun, offset: int) -> AsyncIterator[str]:
    """Yield messages with the changes to a run since a journal offset, until the run is over.

    If the offset is -1, the first message contains all entities.
    """
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
    """Yield messages with the log lines after a cursor, until the logs are complete or a search is too slow.

    If the logs grow faster than lines can be sent, only the newest lines are sent.
    """
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
