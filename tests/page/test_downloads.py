"""The whole log of an attempt: its exact bytes, and nothing else, whatever name is asked for."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from clusterkit.page import logs
from clusterkit.page.app import Dashboard
from clusterkit.page.downloads import log_download
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import NoSuchRun, RunStore
from tests.histories import job
from tests.page.histories import beginning, written

FILE = "/api/run/over/file/log/"
BYTES = b"\x00\x1b[31m<b>\xff\r\n" * 100_000  # more than a piece


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """One with a log of any bytes, a pipe and a link in the place of logs."""
    spec = job(workers=1)
    (worker,) = spec.tasks
    made = written(RunStore(tmp_path).path / "over", spec, beginning(spec))
    made.of_task(worker).mkdir()
    made.log(worker, 1).write_bytes(BYTES)
    os.mkfifo(made.log(worker, 2))
    made.log(worker, 3).symlink_to(made.log(worker, 1))
    made.log(worker, 4).touch()
    return made


@pytest.fixture
def client(run: RunDirectory, tmp_path: Path) -> Iterator[TestClient]:
    """Asks the dashboard."""
    with TestClient(Dashboard(RunStore(tmp_path)).app()) as made:
        yield made


def test_it_is_what_the_attempt_wrote(client: TestClient) -> None:
    """Under a name that says which one it is; the browser shows nothing of it."""
    answer = client.get(f"{FILE}worker:0.attempt-1.log")
    assert answer.content == BYTES
    assert answer.headers["content-disposition"] == 'attachment; filename="over-worker-0-attempt-1.log"'
    assert answer.headers["content-type"] == "application/octet-stream"
    assert client.get(f"{FILE}worker:0.attempt-4.log").content == b""


def test_other_names_are_none(client: TestClient) -> None:
    """A pipe, a link, what does not exist, and random text: a sentence, and no file of another place."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    names = [f"worker:0.attempt-{number}.log" for number in (2, 3, 5, 0, "x", "1/..")]
    names += ["".join(chance.choices("worker:0.attempt-1.log%2e%00é~", k=chance.randrange(1, 40))) for _ in range(200)]
    for name in names:
        answer = client.get(FILE + name)
        assert answer.status_code in (404, 200), name
        assert answer.content == BYTES if answer.status_code == 200 else "error" in answer.json(), name
    for number in (2, 3, 5):
        assert client.get(f"{FILE}worker:0.attempt-{number}.log").status_code == 404


def test_no_more_than_a_piece_is_held(run: RunDirectory) -> None:
    """A log is read as it is sent, up to where it was; one that is cut meanwhile ends there."""
    (worker,) = run.info().job.tasks  # type: ignore[union-attr]

    async def pieces(cut: bool) -> list[int]:
        sizes = []
        async for piece in log_download(run, f"{worker}.attempt-1.log").body_iterator:
            sizes.append(len(piece))
            if cut:
                run.log(worker, 1).write_bytes(b"")
            else:
                with run.log(worker, 1).open("ab") as file:
                    file.write(b"more")
        return sizes

    sizes = asyncio.run(pieces(cut=False))
    assert (sum(sizes), max(sizes)) == (len(BYTES), logs.CHUNK)
    assert asyncio.run(pieces(cut=True)) == [logs.CHUNK]
    with pytest.raises(NoSuchRun):
        log_download(run, "ps:0.attempt-1.log")
