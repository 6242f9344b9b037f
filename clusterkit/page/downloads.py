"""Downloads of logs: an attempt's log is sent byte for byte as it was written."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

from starlette.responses import StreamingResponse

from clusterkit.page.logs import CHUNK
from clusterkit.store.arrivals import LogFile
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import NoSuchRun
from clusterkit.words.model import Task

_NAME = re.compile(r"([a-z]{1,20}:[0-9]{1,6})\.attempt-([0-9]{1,9})\.log")


def log_download(run: RunDirectory, name: str) -> StreamingResponse:
    """Return the current contents of a log with a name such as `worker:1.attempt-2.log`. Raises NoSuchRun."""
    missing = NoSuchRun(f"The run {run.run_id} has no such log.")
    if (match := _NAME.fullmatch(name)) is None:
        raise missing
    try:
        task, attempt = Task.parse(match[1]), int(match[2])
    except ValueError:
        raise missing from None
    path = run.log(task, attempt)
    with closing(LogFile(path)) as log:
        if not log.is_open:
            raise missing
    saved = f"{run.run_id}-{task.type}-{task.index}-attempt-{attempt}.log"
    headers = {"content-disposition": f'attachment; filename="{saved}"', "cache-control": "no-store"}
    return StreamingResponse(_pieces(path), media_type="application/octet-stream", headers=headers)


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with closing(LogFile(path)) as log:
        at, size = 0, log.size
        # A piece is empty if the file was truncated meanwhile.
        while piece := await asyncio.to_thread(log.read, at, min(size, at + CHUNK)):
            at += len(piece)
            yield piece
