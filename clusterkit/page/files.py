"""The files that are served: those of the page, and the stacks of a run."""

from __future__ import annotations

import json
from pathlib import Path

from starlette.responses import Response

from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import NoSuchRun
from clusterkit.system.files import end_of
from clusterkit.text.printable import printable_lines

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
LONGEST = 4 << 20  # bytes of a run's file; of a longer one, the end is shown


class StaticFiles:
    """The page's own files, as listed when the dashboard starts."""

    def __init__(self) -> None:
        files = [path for path in STATIC.rglob("*") if path.is_file() and path.suffix in TYPES]
        self._files = {str(path.relative_to(STATIC)): path for path in files}

    def response(self, name: str) -> Response:
        """The file with that name, or an error."""
        path = self._files.get(name)
        if path is None:
            why = json.dumps({"error": "The page has no such file."})
            return Response(why, 404, media_type="application/json")
        return Response(path.read_bytes(), media_type=TYPES[path.suffix], headers={"cache-control": "no-cache"})


def run_file(run: RunDirectory, kind: str, name: str) -> str:
    """The end of a file that the run lists under this name, without control characters. Raises NoSuchRun."""
    listed = run.all_stacks.iterdir() if kind == "stacks" and run.all_stacks.is_dir() else ()
    path = next((path for path in listed if path.name == name), None)
    if path is None:
        raise NoSuchRun(f"The run {run.run_id} has no such file.")
    try:
        return printable_lines(end_of(path, LONGEST).decode(errors="replace"))
    except OSError:
        raise NoSuchRun(f"The run {run.run_id} has no such file any more.") from None
