"""The files that are served: those of the page, and those of a run that are for people, such as stacks."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from starlette.responses import Response

from clusterkit.client.directory import RunDirectory
from clusterkit.client.store import NoSuchRun
from clusterkit.words.printable import printable_lines

STATIC = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
LONGEST = 4 << 20  # bytes of a run's file, of which the end is shown


class StaticFiles:
    """The page's own files. Only what is there when the dashboard starts is served."""

    def __init__(self, directory: Path = STATIC) -> None:
        files = [path for path in directory.rglob("*") if path.is_file() and path.suffix in TYPES]
        self._files = {str(path.relative_to(directory)): path for path in files}

    def response(self, name: str) -> Response:
        """The file of that name."""
        path = self._files.get(name)
        if path is None:
            why = json.dumps({"error": "The page has no such file."})
            return Response(why, 404, media_type="application/json")
        return Response(path.read_bytes(), media_type=TYPES[path.suffix], headers={"cache-control": "no-cache"})


class RunFiles:
    """The files of a run that can be asked for, by the names under which the run lists them."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run

    def text(self, kind: str, name: str) -> str:
        """The end of a file, as text that has nothing in it which a browser would act on. Raises NoSuchRun."""
        path = dict(self._listed(kind)).get(name)
        if path is None:
            raise NoSuchRun(f"The run {self._run.run_id} has no such file.")
        try:
            return printable_lines(_end_of(path).decode(errors="replace"))
        except OSError:
            raise NoSuchRun(f"The run {self._run.run_id} has no such file any more.") from None

    def _listed(self, kind: str) -> Iterator[tuple[str, Path]]:
        if kind == "stacks" and self._run.all_stacks.is_dir():
            yield from ((path.name, path) for path in self._run.all_stacks.iterdir())


def _end_of(path: Path) -> bytes:
    """Raises OSError."""
    # Not blocking, and no links: a task can write to the directory.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        seen = os.fstat(file)
        if not stat.S_ISREG(seen.st_mode):
            raise FileNotFoundError
        return os.pread(file, LONGEST, max(0, seen.st_size - LONGEST))
    finally:
        os.close(file)
