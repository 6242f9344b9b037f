"""Watches the files of the program, and posts what changes in them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from clusterkit.check.imports import MOST as MOST_FILES
from clusterkit.check.own_files import MOST, OwnFiles, own_files, problem_of
from clusterkit.system.barrier import join, start_thread
from clusterkit.words.events import Crashed, Impaired, ProgramChanged
from clusterkit.words.job import JobSpec

STEP = 50  # milliseconds without another change after which a change is looked at
BURST = 300  # milliseconds after which it is in any case
LOOK_EVERY = 1.0  # seconds between two looks at the known files, for what the system does not tell, as with NFS
POLL_EVERY = 0.25  # the same where it tells nothing at all
EMPTY_FOR = 0.3  # seconds that whoever empties a file, or makes an empty one, has to write it
LONGEST_AGO = 5.0  # seconds; a file that is older was not saved just now but renamed, or its clock differs
Post = Callable[[ProgramChanged | Impaired | Crashed], None]
Marks = dict[Path, tuple[int, int, int] | None]


class EditWatcher:
    """One thread, from before the first start of a task until `stop`."""

    def __init__(self, job: JobSpec, post: Post) -> None:
        self._job = job
        self._post = post
        self._limited = False  # it has been said that some files are not watched
        self._good = self._seen = own_files(self._job)
        self._say_limits()
        self._problem = ""
        self._marks = _marks(self._seen)
        if not self._seen.digests:
            post(Impaired(f"--watch finds no file of {job.program.target}, so no change of it will be seen."))
        self._stop = threading.Event()
        self._thread = start_thread("edits", self._attend, post)

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        join(self._thread)

    def _attend(self) -> None:
        while not self._stop.is_set():
            places = self._seen.directories()
            try:
                for changes in _changes(places, self._stop):
                    self._look(changes)
                    if self._seen.directories() != places:
                        break
            except FileNotFoundError:  # a directory was removed meanwhile
                self._stop.wait(STEP / 1000)
                self._look(True)
            except (OSError, RuntimeError, UnicodeError) as error:  # the last: of a path that is not UTF-8
                why = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
                self._post(Impaired(
                    f"The system does not report changes of files ({why}). The program's files are looked at "
                    f"every {POLL_EVERY:g} s instead."
                ))  # fmt: skip
                self._poll()

    def _poll(self) -> None:
        while not self._stop.wait(POLL_EVERY):
            self._look(False)

    def _look(self, something: bool) -> None:
        """Read the files again if something in their directories changed, or one of them did, or one is missing.

        An editor that empties a file before it writes it has some time for that.
        """
        marks = _marks(self._seen)
        if not (something or self._problem or marks != self._marks):
            return
        now = own_files(self._job)
        if self._is_emptied(now):
            self._wait_for_text()
            marks, now = _marks(self._seen), own_files(self._job)
        # Of known files the marks from before the reading: what is saved meanwhile is seen the next time.
        marks = {path: marks[path] if path in marks else _mark(path) for path in now.digests}
        saved = {path for path in {*marks, *self._marks} if marks.get(path) != self._marks.get(path)}
        saved.update(now.changed(self._seen))
        self._seen, self._marks = now, marks
        self._say_limits()
        if saved:
            self._tell(now, saved)

    def _is_emptied(self, now: OwnFiles) -> bool:
        """Whether a file is empty that was not at the last look, or, if it was gone then, when the program was good."""
        seen, good = self._seen.texts, self._good.texts
        return any(not text and seen.get(path, good.get(path)) for path, text in now.texts.items())

    def _wait_for_text(self) -> None:
        until = time.monotonic() + EMPTY_FOR
        while time.monotonic() < until and not self._stop.wait(STEP / 1000):
            if not self._is_emptied(own_files(self._job)):
                break

    def _say_limits(self) -> None:
        if self._limited or not self._seen.left_out:
            return
        self._limited = True
        self._post(Impaired(
            f"--watch follows at most {MOST_FILES} files of a program, and {MOST >> 20} MiB in all, so changes of "
            f"{self._seen.name(self._seen.left_out[0])}, for example, will not be seen."
        ))  # fmt: skip

    def _tell(self, now: OwnFiles, saved: Collection[Path]) -> None:
        changed, problem = now.changed(self._good), problem_of(now, self._good, self._job)
        names = tuple(map(now.name, sorted(changed or saved)))
        if problem:
            if problem != self._problem:
                self._post(ProgramChanged(names, _ago(saved), problem))
        else:
            self._good = now
            self._post(ProgramChanged(names, _ago(saved), same=not changed))
        self._problem = problem


def _changes(places: Sequence[Path], stop: threading.Event) -> Iterator[bool]:
    """Yield whether something in the directories changed, now and then also if nothing did. Ends with `stop`."""
    from watchfiles import watch

    found = watch(
        *places,
        watch_filter=None,
        debounce=BURST,
        step=STEP,
        stop_event=stop,
        rust_timeout=int(LOOK_EVERY * 1000),
        yield_on_timeout=True,
        raise_interrupt=False,
        recursive=False,
        ignore_permission_denied=True,
    )
    return (bool(changes) for changes in found)


def _marks(files: OwnFiles) -> Marks:
    return {path: _mark(path) for path in files.digests}


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _ago(saved: Collection[Path]) -> float:
    """How long ago the last of the files was written, in seconds, if that is plausible."""
    times = [mark[0] / 1e9 for path in saved if (mark := _mark(path)) is not None]
    ago = time.time() - max(times, default=0.0)
    return ago if 0.0 <= ago <= LONGEST_AGO else 0.0
