"""Downloads of logs: streams all bytes of an attempt's log, unchanged."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

from clusterkit.page import logs
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import NoSuchRun
from clusterkit.words.model import Task

_NAME = re.compile(r"([a-z]{1,20}:[0-9]{1,6})\.attempt-([0-9]{1,9})\.log")


def log_download(run: RunDirectory, name: str) -> StreamingResponse:
    """Return a log by a name such as `worker:1.attempt-2.log`, up to its present end. Raises NoSuchRun."""
    missing = NoSuchRun(f"The run {run.run_id} has no such log.")
    if (match := _NAME.fullmatch(name)) is None:
        raise missing
    try:
        task, attempt = Task.parse(match[1]), int(match[2])
    except ValueError:
        raise missing from None
    with logs.opened(run, task, attempt) as file:
        if file is None or not stat.S_ISREG(os.fstat(file).st_mode):
            raise missing
    saved = f"{run.run_id}-{task.type}-{task.index}-attempt-{attempt}.log"
    headers = {"content-disposition": f'attachment; filename="{saved}"', "cache-control": "no-store"}
    return StreamingResponse(_pieces(run, task, attempt), media_type="application/octet-stream", headers=headers)


async def _pieces(run: RunDirectory, task: Task, attempt: int) -> AsyncIterator[bytes]:
    with logs.opened(run, task, attempt) as file:
        at, size = 0, 0 if file is None else os.fstat(file).st_size
        while file is not None and at < size:
            piece = await asyncio.to_thread(logs.read, file, at, min(size, at + logs.CHUNK))
            if not piece:  # the log was truncated in the meantime
                return
            at += len(piece)
            yield piece
