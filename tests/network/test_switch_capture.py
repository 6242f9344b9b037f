"""The switch's capture file: whole packets, whatever happens to the disk."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest

from clusterkit.network.switch import capture as module
from clusterkit.network.switch.capture import Capture


def packets(file: Path) -> list[bytes]:
    """The packets in the file, which has to end with a whole one."""
    data, found, position = file.read_bytes(), [], 24
    while position < len(data):
        found.append(data[position + 16 : position + 16 + struct.unpack_from("=I", data, position + 8)[0]])
        position += 16 + len(found[-1])
    assert position == len(data)
    return found


def test_packets_are_buffered_for_a_second(tmp_path: Path) -> None:
    """Then they are due; the header is due at once."""
    capture = Capture(str(tmp_path / "file"))
    assert capture.seconds_to_flush(1e12) == 0
    capture.flush()
    assert capture.seconds_to_flush(0) is None
    assert packets(tmp_path / "file") == []
    capture.add(b"packet")
    assert capture.seconds_to_flush(0) is not None
    assert packets(tmp_path / "file") == []
    capture.flush()
    assert packets(tmp_path / "file") == [b"packet"]
    capture.close()


def test_many_packets_are_written_earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that memory stays bounded."""
    monkeypatch.setattr(module, "FLUSH_SIZE", 100)
    capture = Capture(str(tmp_path / "file"))
    capture.add(bytes(100))
    assert packets(tmp_path / "file") == [bytes(100)]
    capture.close()


@pytest.mark.parametrize(("room", "left"), [(0, 0), (20, 0), (24, 0), (24 + 16 + 9, 0), (24 + 16 + 10, 1), (75, 1)])
def test_a_full_disk_ends_the_capture_with_a_whole_packet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], room: int, left: int
) -> None:
    """With one line in the log; later packets are ignored."""
    write = os.write
    rest = [room]

    def full(descriptor: int, data: bytes) -> int:
        count = write(descriptor, data[: rest[0]])
        rest[0] -= count
        if data and not count:
            raise OSError(errno.ENOSPC, "No space left on device")
        return count

    monkeypatch.setattr(os, "write", full)
    capture = Capture(str(tmp_path / "file"))
    for _ in range(3):
        capture.add(bytes(10))
    capture.flush()
    capture.add(bytes(10))
    capture.flush()
    monkeypatch.undo()
    assert (tmp_path / "file").stat().st_size == (24 + 26 * left if room >= 24 else 0)
    assert capsys.readouterr().err == f"The capture {tmp_path / 'file'} ends here: No space left on device.\n"


def test_a_packet_that_does_not_fit_leaves_the_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the incomplete record is removed."""
    capture = Capture(str(tmp_path / "file"))
    capture.add(b"first")
    capture.flush()
    write = os.write
    counts = iter([20])

    def partly(descriptor: int, data: bytes) -> int:
        count = next(counts, None)
        if count is None:
            raise OSError(errno.EFBIG, "File too large")
        return write(descriptor, data[:count])

    monkeypatch.setattr(os, "write", partly)
    capture.add(b"second")
    capture.flush()
    monkeypatch.undo()
    assert packets(tmp_path / "file") == [b"first"]
