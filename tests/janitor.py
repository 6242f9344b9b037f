"""The janitor of a test session: a process beside it that ends what hangs, and what the session leaves behind.

    python -I -S janitor.py PID DESCRIPTOR MARK PLACE SECONDS

PID leads the session; DESCRIPTOR is a pipe by which it says that it is done. MARK is in the environment of
all that the session starts. PLACE is the directory of its temporary files; below it each process that runs tests says
what it is doing. The standard library only: it runs apart from everything that it may have to end.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

VARIABLE = "TEST_SESSION"
RUNNING = "running"  # the directory of what the session's processes are doing
UP = "time-is-up"  # a file that ends the session as the end of its time does, for the janitor's own test
DUMP = signal.SIGRTMIN + 7  # has a process of the session print its stacks
OVER = signal.SIGRTMIN + 8  # has the session end by itself
LOOK = 0.5  # seconds
LEAVING = 2.0  # seconds in which what sees the session's end by itself has gone
ENDING = 8.0  # seconds to end after SIGTERM
REPORTING = 20.0  # seconds for a session's last words
LATE = 5.0  # seconds after a test's own limit, which a process blocked in C does not notice


class Janitor:
    """Looks at a session until it is over."""

    def __init__(self, leader: int, lifeline: int, mark: str, place: Path, seconds: float) -> None:
        self.end = select.poll()
        for descriptor in (os.pidfd_open(leader), lifeline):
            self.end.register(descriptor, select.POLLIN)
        self.mark, self.place = mark, place
        self.until = time.monotonic() + seconds if seconds else float("inf")

    def work(self) -> None:
        """Until nothing is left of the session."""
        while not self.is_over(LOOK):
            for path, doing in list(self.doing()):
                if not is_alive(doing["pid"]):
                    path.unlink(missing_ok=True)
                    sweep(doing["mark"])
                elif doing["until"] and time.monotonic() > doing["until"] + LATE:
                    self.end_process(doing)
            if time.monotonic() > self.until or (self.place / UP).exists():
                self.until = float("inf")
                (self.place / UP).unlink(missing_ok=True)
                self.end_session()
        sweep(self.mark)
        shutil.rmtree(self.place, ignore_errors=True)

    def is_over(self, seconds: float) -> bool:
        """Whether the session has ended; waits that long for it."""
        return bool(self.end.poll(seconds * 1000))

    def doing(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """What each process of the session says."""
        for path in sorted((self.place / RUNNING).glob("*.json")):
            with suppress(OSError, ValueError):
                yield path, json.loads(path.read_text())

    def end_process(self, doing: dict[str, Any]) -> None:
        """Kill a process whose test has overrun its limit, and that did not notice."""
        say(f"{doing['name']} does not end {doing['test']}, whose time was up {LATE:g} s ago. It is killed.")
        dump(doing["pid"])
        with suppress(ProcessLookupError):
            os.kill(doing["pid"], signal.SIGKILL)

    def end_session(self) -> None:
        """Say what it is doing, have it report, and kill what does not."""
        say("The session has taken too long. It was doing:")
        for _, doing in self.doing():
            since = f", for {time.monotonic() - doing['since']:.0f} s" if doing["test"] else ""
            say(f"  {doing['name']}: {doing['test'] or 'no test'}{since}")
            dump(doing["pid"])
        for _, doing in self.doing():
            if doing["leads"]:
                signal_process(doing["pid"], OVER)
        if not self.is_over(REPORTING):
            for _, doing in self.doing():
                signal_process(doing["pid"], signal.SIGKILL)


def sweep(mark: str) -> None:
    """End every process with that mark, and what is below them."""
    wait_for_none(mark, LEAVING)
    for pid in marked(mark):
        signal_process(pid, signal.SIGTERM)
        signal_process(pid, signal.SIGCONT)
    wait_for_none(mark, ENDING)
    while left := marked(mark):
        for pid in left:
            signal_process(pid, signal.SIGKILL)
        wait_for_none(mark, LOOK)


def wait_for_none(mark: str, seconds: float) -> None:
    """Until none is left, or the time is up."""
    until = time.monotonic() + seconds
    while marked(mark) and time.monotonic() < until:
        time.sleep(0.05)


def marked(mark: str) -> set[int]:
    """The live processes with that mark, or with one that begins with it, and their descendants."""
    wanted = f"\0{VARIABLE}={mark}".encode()
    parents, found = dict[int, int](), set[int]()
    for pid in [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]:
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] in (b"Z", b"X"):
                continue
            parents[pid] = int(fields[1])
            if wanted in b"\0" + Path(f"/proc/{pid}/environ").read_bytes():
                found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def is_alive(pid: int) -> bool:
    """Whether there is such a process, other than a dead one that nobody has waited for."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    return False


def dump(pid: int) -> None:
    """Have a process print its stacks; it needs a moment for that."""
    signal_process(pid, DUMP)
    time.sleep(0.5)


def signal_process(pid: int, number: int) -> None:
    """Send a signal, if the process is still there and may be signalled."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def say(text: str) -> None:
    """To whoever watches the session."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Leave the session's process tree, so as not to be swept with it, then work."""
    leader, lifeline, mark, place, seconds = sys.argv[1:]
    janitor = Janitor(int(leader), int(lifeline), mark, Path(place), float(seconds))
    if os.fork():
        os._exit(0)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    janitor.work()


if __name__ == "__main__":
    main()
