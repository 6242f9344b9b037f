"""The full disk: an overlay over a directory, in the tasks' mount namespace, that has no room for anything new."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from clusterkit.network.switch.system import MS_MOVE, MS_NODEV, MS_NOSUID, NotPossible, detach, mount, said

_SIZE = "size=64k,nr_inodes=16"  # of the room, which is filled before a task can see it


class FullDisk:
    """A directory that can be full. `scratch` is an empty directory in which something is mounted meanwhile."""

    def __init__(self, path: str, scratch: str, by_user: bool) -> None:
        self._path = path
        self._scratch = scratch
        self._by_user = by_user  # in a user namespace of its own
        self._numbers: set[int] = set()

    def fill(self, number: int) -> None:
        """From now on all that is opened there can be read, and not written. Raises NotPossible."""
        if not self._numbers:
            self._mount()
        self._numbers.add(number)

    def free(self, number: int) -> None:
        """The directory is as it was, once no number is left. Raises NotPossible."""
        if self._numbers == {number}:
            try:
                detach(self._path)
            except OSError as error:
                raise NotPossible(f"the overlay over {self._path} can't be unmounted: {said(error)}") from None
        self._numbers.discard(number)

    def _mount(self) -> None:
        try:
            lower = os.open(self._path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise NotPossible(f"{self._path} can't be opened: {said(error)}") from None
        try:
            mount("tmpfs", self._scratch, "tmpfs", MS_NOSUID | MS_NODEV, _SIZE)
            try:
                self._overlay(lower)
            finally:
                detach(self._scratch)  # the overlay keeps what it needs of it
        except OSError as error:
            raise NotPossible(f"an overlay can't be mounted over {self._path}: {said(error)}") from None
        finally:
            os.close(lower)

    def _overlay(self, lower: int) -> None:
        """Mount it aside, fill it, and only then move it to where tasks write."""
        for name in ("upper", "work", "over"):
            Path(self._scratch, name).mkdir()
        room = os.open(self._scratch, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # By descriptors: commas and colons in the paths would mean something here.
            here = f"/proc/self/fd/{room}"
            options = f"lowerdir=/proc/self/fd/{lower},upperdir={here}/upper,workdir={here}/work"
            options += ",userxattr" if self._by_user else ""
            mount("overlay", f"{self._scratch}/over", "overlay", MS_NOSUID | MS_NODEV, options)
        finally:
            os.close(room)
        _fill(self._scratch)
        mount(f"{self._scratch}/over", self._path, flags=MS_MOVE)


def _fill(room: str) -> None:
    with suppress(OSError), Path(room, "full").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    index = 0
    while True:
        try:
            Path(room, str(index)).mkdir()
        except OSError as error:
            if error.errno == errno.ENOSPC:
                return
            raise
        index += 1


def try_full_disk(by_user: bool) -> None:
    """Fill a disk, in directories that nobody else sees, and free it. Raises NotPossible where that does not work."""
    place = "/tmp"
    try:
        mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k")
        for name in ("data", "scratch"):
            Path(place, name).mkdir()
    except OSError as error:
        raise NotPossible(f"a tmpfs can't be mounted: {said(error)}") from None
    disk = FullDisk(f"{place}/data", f"{place}/scratch", by_user)
    disk.fill(1)
    try:
        Path(place, "data", "new").mkdir()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise NotPossible(f"an overlay without room does not say that it is full, but {said(error)}") from None
    else:
        raise NotPossible("an overlay without room takes new files")
    disk.free(1)
