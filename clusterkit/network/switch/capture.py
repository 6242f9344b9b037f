"""Captures every delivered packet in a pcap file (in the classic format, with the link type raw IP)."""

from __future__ import annotations

import itertools
import os
import struct
import sys
import time
from contextlib import suppress

FLUSH_EVERY = 1.0  # seconds; the maximum time for which a packet is buffered
FLUSH_SIZE = 1 << 20  # bytes; a buffer of this size is written immediately
RAW_IP = 101
_HEADER = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, RAW_IP)
_RECORD = struct.Struct("=IIII")


class Capture:
    """A pcap file. If a write fails, the file is truncated after the last whole packet and closed."""

    def __init__(self, path: str) -> None:
        """Create the file. Raises OSError."""
        self._path = path
        self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._records = [_HEADER]
        self._size = len(_HEADER)
        self._written = 0
        self._flush_at: float | None = 0.0

    def add(self, packet: bytes) -> None:
        if self._file is None:
            return
        seconds, rest = divmod(time.time_ns(), 1_000_000_000)
        self._records.append(_RECORD.pack(seconds, rest // 1000, len(packet), len(packet)) + packet)
        self._size += len(packet) + _RECORD.size
        if self._flush_at is None:
            self._flush_at = time.monotonic() + FLUSH_EVERY
        if self._size >= FLUSH_SIZE:
            self.flush()

    def seconds_to_flush(self, now: float) -> float | None:
        return None if self._flush_at is None else max(0.0, self._flush_at - now)

    def flush(self) -> None:
        """Write the buffered packets. If the write fails, end the capture without raising an exception."""
        records, self._records, self._size, self._flush_at = self._records, [], 0, None
        if self._file is None:
            return
        data, done = b"".join(records), 0
        try:
            while done < len(data):
                done += os.write(self._file, data[done:])
            self._written += done
        except OSError as error:
            print(f"The capture {self._path} ends here: {error.strerror}.", file=sys.stderr, flush=True)
            ends = itertools.accumulate(map(len, records))
            with suppress(OSError):
                os.ftruncate(self._file, self._written + max((end for end in ends if end <= done), default=0))
            self.close()

    def close(self) -> None:
        """Close the file without writing the buffered packets."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
