"""Simulates a full disk: mounts an overlay without free space over a directory, in the mount namespace of the tasks."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from clusterkit.network.switch.system import MS_MOVE, MS_NODEV, MS_NOSUID, NotPossible, detach, mount, reason_of

_SIZE = "size=64k,nr_inodes=16"  # mount options of the overlay's upper layer, which is filled before tasks can see it


class FullDisk:
    """A directory that can be made to appear full. The overlay is built in the empty directory `scratch`."""

    def __init__(self, path: str, scratch: str, in_user_namespace: bool) -> None:
        self._path = path
        self._scratch = scratch
        self._in_user_namespace = in_user_namespace  # True if this process has created and entered a user namespace
        self._numbers: set[int] = set()

    def fill(self, number: int) -> None:
        """Make the directory full: from now on, files can be opened only to read them. Raises NotPossible.

        The fault with this `number` needs the full disk until `free` is called with the same number.
        """
        if not self._numbers:
            self._mount()
        self._numbers.add(number)

    def free(self, number: int) -> None:
        """Undo `fill(number)`. The directory is writable again once every `fill` is undone. Raises NotPossible."""
        if self._numbers == {number}:
            try:
                detach(self._path)
            except OSError as error:
                raise NotPossible(f"the overlay over {self._path} can't be unmounted: {reason_of(error)}") from None
        self._numbers.discard(number)

    def _mount(self) -> None:
        try:
            lower = os.open(self._path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise NotPossible(f"{self._path} can't be opened: {reason_of(error)}") from None
        try:
            mount("tmpfs", self._scratch, "tmpfs", MS_NOSUID | MS_NODEV, _SIZE)
            try:
                self._overlay(lower)
            finally:
                detach(self._scratch)  # the mounted overlay keeps its layers alive
        except OSError as error:
            raise NotPossible(f"an overlay can't be mounted over {self._path}: {reason_of(error)}") from None
        finally:
            os.close(lower)

    def _overlay(self, lower: int) -> None:
        """Mount the overlay in the scratch directory, fill it up, and move the mount over the tasks' directory."""
        for name in ("upper", "work", "over"):
            Path(self._scratch, name).mkdir()
        scratch = os.open(self._scratch, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Name directories by descriptors, since their paths may contain commas or colons, which separate options.
            here = f"/proc/self/fd/{scratch}"
            options = f"lowerdir=/proc/self/fd/{lower},upperdir={here}/upper,workdir={here}/work"
            options += ",userxattr" if self._in_user_namespace else ""
            mount("overlay", f"{self._scratch}/over", "overlay", MS_NOSUID | MS_NODEV, options)
        finally:
            os.close(scratch)
        _fill(self._scratch)
        mount(f"{self._scratch}/over", self._path, flags=MS_MOVE)


def _fill(directory: str) -> None:
    with suppress(OSError), Path(directory, "full").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    index = 0
    while True:
        try:
            Path(directory, str(index)).mkdir()
        except OSError as error:
            if error.errno == errno.ENOSPC:
                return
            raise
        index += 1


def try_full_disk(in_user_namespace: bool) -> None:
    """Test whether this machine can simulate a full disk. Raises NotPossible if it can't.

    This process must be in a mount namespace of its own, where the test mounts file systems over /tmp.
    """
    place = "/tmp"
    try:
        mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k")
        for name in ("data", "scratch"):
            Path(place, name).mkdir()
    except OSError as error:
        raise NotPossible(f"a tmpfs can't be mounted: {reason_of(error)}") from None
    disk = FullDisk(f"{place}/data", f"{place}/scratch", in_user_namespace)
    disk.fill(1)
    try:
        Path(place, "data", "new").mkdir()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise NotPossible(f"an overlay without free space does not fail as full, but: {reason_of(error)}") from None
    else:
        raise NotPossible("an overlay without free space accepts new files")
    disk.free(1)
