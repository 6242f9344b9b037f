"""The capture: every packet that is delivered, in a file that packet tools read (classic pcap, raw IP)."""

from __future__ import annotations

import os
import struct
import sys
import time
from contextlib import suppress

EVERY = 1.0  # seconds for which packets are kept back at most
FULL = 1 << 20  # bytes that are
RAW_IP = 101
_HEADER = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, RAW_IP)
_RECORD = struct.Struct("=IIII")


class Capture:
    """A pcap file, which at any moment has whole packets only. Raises OSError where it can't be made.

    Where it can't be written any more, it ends with the last whole packet.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._records = [_HEADER]
        self._kept = len(_HEADER)
        self._written = 0
        self._due: float | None = 0.0

    def add(self, packet: bytes) -> None:
        """Take a packet that is delivered now."""
        if self._file is None:
            return
        seconds, rest = divmod(time.time_ns(), 1_000_000_000)
        self._records += (_RECORD.pack(seconds, rest // 1000, len(packet), len(packet)), packet)
        self._kept += len(packet) + _RECORD.size
        if self._due is None:
            self._due = time.monotonic() + EVERY
        if self._kept >= FULL:
            self.flush()

    def wait(self, now: float) -> float | None:
        """Seconds until something has to be written; None where nothing is kept back."""
        return None if self._due is None else max(0.0, self._due - now)

    def flush(self) -> None:
        """Write what is kept back. Where that fails, the capture is over, and only that."""
        data, self._records, self._kept, self._due = b"".join(self._records), [], 0, None
        if self._file is None:
            return
        done = 0
        try:
            while done < len(data):
                done += os.write(self._file, data[done:])
            self._written += done
        except OSError as error:
            print(f"The capture {self._path} ends here: {error.strerror}.", file=sys.stderr, flush=True)
            with suppress(OSError):
                os.ftruncate(self._file, self._written + self._whole(data, done))
            self.close()

    def close(self) -> None:
        """Nothing is taken any more; what was kept back and not flushed is lost."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _whole(self, data: bytes, end: int) -> int:
        """How many of the first bytes are whole packets."""
        position = 0 if self._written else len(_HEADER)
        if position > end:
            return 0
        while position + _RECORD.size <= end:
            following = position + _RECORD.size + _RECORD.unpack_from(data, position)[2]
            if following > end:
                break
            position = following
        return position
