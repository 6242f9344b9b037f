"""What the machine has run out of is said as that, with what to do; it is no failure of clusterkit's."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import tempfile
from pathlib import Path

import pytest

from clusterkit.backends.local.resources import too_few_descriptors
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.supervisor.crashes import FILE, save_crash
from clusterkit.supervisor.guardian import detach, guard
from clusterkit.system.barrier import crashed, shortage
from clusterkit.system.ports import claim
from clusterkit.words.errors import OutOfResources, RunDirectoryError
from tests.histories import job
from tests.support import no_descriptors


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EMFILE, r"^Too many open files: the limit is \d+. Raise it, for example with: ulimit -n 1024$"),
        (errno.ENFILE, "^Too many files are open on this machine"),
        (errno.EAGAIN, "^No process or thread can be started: .* `ulimit -u`"),
        (errno.ENOMEM, "^The memory is used up"),
        (errno.ENOENT, "^$"),
    ],
)
def test_the_sentence(number: int, said: str) -> None:
    """For an OSError of that number; another exception has none."""
    assert re.search(said, shortage(OSError(number, os.strerror(number))))
    assert shortage(ValueError(number)) == ""


def test_a_crash_for_want_of_something_is_none_to_report(tmp_path: Path) -> None:
    """The sentence stands in the place of a traceback, on the terminal and in result.json."""
    run = RunDirectory(tmp_path / "r")
    run.make()
    event = crashed("the thread 'x'", OSError(errno.ENOMEM, "Cannot allocate memory"))
    assert save_crash(run, event) == "The run is ended at once. The memory is used up. Close programs."
    assert "eport it" not in event.sentence
    assert not (run.path / FILE).exists()
    assert "Please report it" in save_crash(run, crashed("the thread 'x'", ValueError("x")))


def test_a_crash_is_not_written_through_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the run's directory it is appended; without one, it goes to a new file, whatever others have made there."""
    run = RunDirectory(tmp_path / "r")
    run.make()
    target = tmp_path / "target"
    target.write_text("mine")
    (run.path / FILE).symlink_to(target)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    (temporary / f"clusterkit-{os.getpid()}-{FILE}").symlink_to(target)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    said = save_crash(run, crashed("the thread 'x'", ValueError("x")))
    assert target.read_text() == "mine"
    [written] = [path for path in temporary.iterdir() if not path.is_symlink()]
    assert str(written) in said
    assert written.stat().st_mode & 0o777 == 0o600
    assert "ValueError: x" in written.read_text()
    (run.path / FILE).unlink()
    for _ in range(2):
        assert str(run.path / FILE) in save_crash(run, crashed("the thread 'x'", ValueError("x")))
    assert (run.path / FILE).read_text().count("ValueError: x\n") == 2


def test_no_descriptor_is_not_no_port() -> None:
    """The search for a port needs one as well."""
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        claim()
    spare = [os.dup(0) for _ in range(3)]
    os.close(spare.pop())  # room for one socket, and not for the second
    highest = max(spare)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            claim()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in spare:
            os.close(descriptor)


@pytest.mark.parametrize("limit", [24, 33, 34])
def test_too_low_a_limit_of_open_files_is_refused(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """Below what the smallest job of so many tasks takes; between that and what a job may take it is a warning."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, 4096))
    said = f"The limit of open files is {limit}, and 2 tasks may need 52. Raise it with: ulimit -n 52"
    assert too_few_descriptors(job(workers=2)) == ([said] if limit < 34 else [])


@pytest.mark.process
@pytest.mark.usefixtures("subreaper")
def test_a_fork_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In the guardian, and where a run goes to the background: an error, and signals are as they were."""

    def full() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", full)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with pytest.raises(OutOfResources, match="No process or thread can be started"):
        guard(lambda _: 0, lambda *_: None)
    with pytest.raises(OutOfResources, match="No process or thread can be started"):
        detach(lambda: 0, tmp_path / "console")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


@pytest.mark.parametrize("given", [None, "", "relative"])
def test_without_a_home_directory_the_state_directory_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    """As in a container whose user number is in no passwd file."""

    def unknown(_: int) -> None:
        raise KeyError

    for name in ("HOME", "CLUSTERKIT_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    if given is not None:
        monkeypatch.setenv("HOME", given)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(RunDirectoryError, match="Set CLUSTERKIT_HOME to a writable directory"):
        RunStore()
