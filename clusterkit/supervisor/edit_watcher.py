"""Watches the program's files for `--watch`, and posts their changes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from clusterkit.check.imports import MOST_FILES as MOST_FILES
from clusterkit.check.own_files import MOST, OwnFiles, own_files, problem_of
from clusterkit.system.barrier import join, start_thread
from clusterkit.words.events import Crashed, Impaired, ProgramChanged
from clusterkit.words.job import JobSpec

STEP = 50  # milliseconds; changes are reported once this time has passed without another change
BURST = 300  # milliseconds; changes are reported after this time even if further changes are arriving
CHECK_EVERY = 1.0  # seconds between checks of the known files, since NFS, for example, does not report all changes
POLL_EVERY = 0.25  # seconds between checks if the system reports no changes at all
EMPTY_FOR = 0.3  # seconds; how long to wait for an editor to fill a file that it has emptied or created
OLDEST_EDIT = 5.0  # seconds; an older modification time is not the time of the edit, for example after a rename
Post = Callable[[ProgramChanged | Impaired | Crashed], None]
Marks = dict[Path, tuple[int, int, int] | None]


class EditWatcher:
    """Watches the program's files in a thread, which starts before the first task and runs until `stop` is called."""

    def __init__(self, job: JobSpec, post: Post) -> None:
        self._job = job
        self._post = post
        self._has_warned = False  # True once the user has been warned that some files are not watched
        self._last_valid = self._files = own_files(self._job)
        self._warn_of_limits()
        self._problem = ""
        self._marks = _marks(self._files)
        if not self._files.digests:
            post(Impaired(f"--watch finds no file of {job.program.target}, so no change of it will be seen."))
        self._stop = threading.Event()
        self._thread = start_thread("edits", self._watch, post)

    def stop(self) -> None:
        self._stop.set()
        join(self._thread)

    def _watch(self) -> None:
        while not self._stop.is_set():
            places = self._files.directories()
            try:
                for changes in _changes(places, self._stop):
                    self._check(changes)
                    if self._files.directories() != places:
                        break
            except FileNotFoundError:  # a directory was removed before it could be watched
                self._stop.wait(STEP / 1000)
                self._check(True)
            except (OSError, RuntimeError, UnicodeError) as error:  # UnicodeError: a path is not UTF-8
                why = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
                self._post(Impaired(
                    f"The system does not report changes of files ({why}). The program's files are looked at "
                    f"every {POLL_EVERY:g} s instead."
                ))  # fmt: skip
                while not self._stop.wait(POLL_EVERY):
                    self._check(False)

    def _check(self, reported: bool) -> None:
        """Read the files again if a change in their directories was `reported`, a file changed, or there was a problem.

        If a file is empty, wait first: an editor may still be writing the file.
        """
        marks = _marks(self._files)
        if not (reported or self._problem or marks != self._marks):
            return
        now = own_files(self._job)
        if self._is_emptied(now):
            self._wait_until_filled()
            marks, now = _marks(self._files), own_files(self._job)
        # The marks of known files, such as the modification times, were read before the texts. So if a file is saved
        # between the two reads, the next check notices the change.
        marks = {path: marks[path] if path in marks else _mark(path) for path in now.digests}
        saved = {path for path in {*marks, *self._marks} if marks.get(path) != self._marks.get(path)}
        saved.update(now.changed_since(self._files))
        self._files, self._marks = now, marks
        self._warn_of_limits()
        if saved:
            self._post_change(now, saved)

    def _is_emptied(self, now: OwnFiles) -> bool:
        """Return whether any file has become empty since the last check, or since the program was last valid."""
        seen, last_valid = self._files.texts, self._last_valid.texts
        return any(not text and seen.get(path, last_valid.get(path)) for path, text in now.texts.items())

    def _wait_until_filled(self) -> None:
        until = time.monotonic() + EMPTY_FOR
        while time.monotonic() < until and not self._stop.wait(STEP / 1000):
            if not self._is_emptied(own_files(self._job)):
                break

    def _warn_of_limits(self) -> None:
        if self._has_warned or not self._files.omitted:
            return
        self._has_warned = True
        self._post(Impaired(
            f"--watch follows at most {MOST_FILES} files of a program, and {MOST >> 20} MiB in all, so changes of "
            f"{self._files.name(self._files.omitted[0])}, for example, will not be seen."
        ))  # fmt: skip

    def _post_change(self, now: OwnFiles, saved: Collection[Path]) -> None:
        changed, problem = now.changed_since(self._last_valid), problem_of(now, self._last_valid, self._job)
        names = tuple(map(now.name, sorted(changed or saved)))
        if problem:
            if problem != self._problem:
                self._post(ProgramChanged(names, _age(saved), problem))
        else:
            self._last_valid = now
            self._post(ProgramChanged(names, _age(saved), same=not changed))
        self._problem = problem


def _changes(places: Sequence[Path], stop: threading.Event) -> Iterator[bool]:
    """Yield True when the directories change, and False every CHECK_EVERY seconds, until `stop` is set."""
    from watchfiles import watch

    found = watch(
        *places,
        watch_filter=None,
        debounce=BURST,
        step=STEP,
        stop_event=stop,
        rust_timeout=int(CHECK_EVERY * 1000),
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


def _age(saved: Collection[Path]) -> float:
    """Return the seconds since the latest write to any of the files, or 0 if that time is implausible."""
    times = [mark[0] / 1e9 for path in saved if (mark := _mark(path)) is not None]
    ago = time.time() - max(times, default=0.0)
    return ago if 0.0 <= ago <= OLDEST_EDIT else 0.0
