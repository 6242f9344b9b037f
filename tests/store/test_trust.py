"""State directories and runs of other users: which are refused, in which words, and which are not."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from clusterkit.store.control import Client, NotLive, Refused, signal_guardian
from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore, state_dir
from clusterkit.store.trust import PARTS, refuse_foreign, refuse_untrusted
from clusterkit.system.files import read_regular
from clusterkit.words.errors import RunDirectoryError
from tests.strangers import STRANGER, needs_root


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory as clusterkit makes it."""
    place = tmp_path / "home"
    for name in PARTS:
        (place / name).mkdir(mode=0o700, parents=True)
    place.chmod(0o700)
    return place


@pytest.mark.parametrize("part", ["", *PARTS])
def test_what_others_can_write_is_refused(state: Path, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence has the command that mends it."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(state))
    assert state_dir() == state
    (state / part).chmod(0o777)
    with pytest.raises(RunDirectoryError, match="Other users can write to") as raised:
        state_dir()
    assert f"chmod go-w {state / part}" in str(raised.value)
    (state / part).chmod(0o755)
    assert state_dir() == state


@needs_root
@pytest.mark.parametrize("part", ["", *PARTS])
def test_what_belongs_to_another_user_is_refused(state: Path, part: str) -> None:
    """Whatever its mode, and by root too."""
    os.chown(state / part, STRANGER, -1)
    with pytest.raises(RunDirectoryError, match=f"{state / part} belongs to uid {STRANGER}, who could run code as you"):
        refuse_untrusted(state)


def test_a_directory_like_tmp_is_none_that_others_can_change(state: Path) -> None:
    """Nobody can rename or remove what is not theirs there; but what is in it has to be one's own."""
    state.chmod(0o1777)
    refuse_untrusted(state)
    (state / "runs").chmod(0o1777)
    with pytest.raises(RunDirectoryError):
        refuse_untrusted(state)


def test_the_user_can_trust_a_directory(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A volume may give all files to one user, or everybody the right to write. Only the one that is named is meant."""
    state.chmod(0o777)
    monkeypatch.setenv("CLUSTERKIT_TRUSTED_HOME", str(state))
    refuse_untrusted(state)
    run = RunStore(state).run("r")
    run.make()
    run.path.chmod(0o770)
    refuse_foreign(run)
    monkeypatch.setenv("CLUSTERKIT_TRUSTED_HOME", str(state.parent))
    with pytest.raises(RunDirectoryError):
        refuse_untrusted(state)


def test_a_link_to_a_directory_of_ones_own_is_followed(state: Path, tmp_path: Path) -> None:
    """Runs may be on a larger disk."""
    disk = tmp_path / "disk"
    disk.mkdir(mode=0o755)
    (state / "runs").rmdir()
    (state / "runs").symlink_to(disk)
    refuse_untrusted(state)
    disk.chmod(0o777)
    with pytest.raises(RunDirectoryError):
        refuse_untrusted(state)


def test_no_run_begins_where_others_can_write(state: Path) -> None:
    """Also where a program names the directory."""
    run = RunStore(state).run("r")
    (state / "runs").chmod(0o777)
    with pytest.raises(RunDirectoryError, match="Other users can write"):
        run.make()
    assert not run.path.exists()


FILES = ("job_file", "result_file", "journal", "lock_file", "usage", "examined", "dashboard", "arrivals")


def _replaced_by_pipe(path: Path) -> None:
    os.mkfifo(path)


def _replaced_by_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _replaced_by_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("replace", [_replaced_by_pipe, _replaced_by_link, _replaced_by_directory])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_none_holds_nobody_up(state: Path, name: str, replace: Callable[[Path], None]) -> None:
    """It is as if it were missing."""
    from clusterkit.store.arrivals import Arrivals
    from clusterkit.store.examined import examined_cells
    from clusterkit.store.journal import JournalReader
    from clusterkit.store.usage import UsageReader

    run = RunStore(state).run("r")
    run.make()
    path: Path = getattr(run, name)
    path.unlink(missing_ok=True)
    replace(path)
    assert run.info() is None
    assert run.result() is None
    assert not run.is_live()
    assert run.dashboard_address() is None
    assert examined_cells(run) == ()
    assert JournalReader(run).new() == []
    assert UsageReader(run.usage).new() == []
    assert Arrivals(run).new() == []
    assert list(run.logs()) == []
    run.wait_until_over()
    with run.shared_lock():
        pass


def test_a_file_of_any_size_is_not_read(tmp_path: Path) -> None:
    """It takes no memory and no room to claim a terabyte."""
    file = tmp_path / "job.json"
    with file.open("wb") as opened:
        opened.truncate(1 << 40)
    with pytest.raises(OSError, match="File too large"):
        read_regular(file, 1 << 28)


@pytest.fixture
def run(state: Path) -> Iterator[RunDirectory]:
    """A live run."""
    made = RunStore(state).run("r")
    made.make()
    lock = made.lock()
    yield made
    os.close(lock)


class Talker:
    """Listens at a run's control socket and answers with what `chunks` gives, whatever is asked."""

    def __init__(self, run: RunDirectory, chunks: Callable[[], bytes]) -> None:
        self._chunks = chunks
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(run.control_socket))
        self._listener.listen(8)
        self._thread = threading.Thread(target=self._talk)
        self._thread.start()

    def _talk(self) -> None:
        with self._listener.accept()[0] as client:
            client.settimeout(10)
            try:
                while chunk := self._chunks():
                    client.sendall(chunk)
            except OSError:
                return

    def close(self) -> None:
        """Wait for the end of the answer, too."""
        self._listener.close()
        self._thread.join(20)
        assert not self._thread.is_alive()


def slowly(chunk: bytes) -> Callable[[], bytes]:
    """A chunk each 50 ms, so that no wait for a single one ever ends."""

    def next_chunk() -> bytes:
        time.sleep(0.05)
        return chunk

    return next_chunk


@pytest.mark.process
@pytest.mark.timeout(40)
@pytest.mark.parametrize(
    ("chunks", "why"),
    [
        (lambda: b"x" * (1 << 16), "gave an invalid answer"),
        (lambda: b'{"id": 77}\n' * 1000, "did not answer in time"),
        (slowly(b"x"), "did not answer in time"),
        (slowly(b"{}\n"), "did not answer in time"),
        (lambda: b"[]\n", "gave an invalid answer"),
        (lambda: b'{"id": 1}\n', "gave an invalid answer"),
        (lambda: b'{"id": 1, "result": 7}\n', "gave an invalid answer"),
        (lambda: b"[" * 100_000 + b"\n", "gave an invalid answer"),
        (lambda: b"\xff\xfe\n", "gave an invalid answer"),
        (lambda: b"", "ended before it answered"),
    ],
)
def test_no_answer_holds_a_command_up(run: RunDirectory, chunks: Callable[[], bytes], why: str) -> None:
    """An answer has an end, a form and a deadline."""
    talker = Talker(run, chunks)
    with ExitStack() as stack:
        stack.callback(talker.close)
        client = stack.enter_context(Client(run, timeout=1.0))
        began = time.monotonic()
        with pytest.raises(NotLive, match=why):
            client.call("kill", tasks=[])
        assert time.monotonic() - began < 8


@pytest.mark.process
@pytest.mark.timeout(60)
def test_random_answers(run: RunDirectory) -> None:
    """Whatever bytes arrive: one of the client's own errors."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    pieces = [b'{"id": 1', b'"result"', b"{", b"}", b":", b"\n", b'"error"', b'{"message": 1}', b",", b"null", b"\0"]
    for _ in range(30):
        text = b"".join(chance.choice(pieces) for _ in range(chance.randrange(40))) + chance.randbytes(20) + b"\n"
        parts = iter([text])
        talker = Talker(run, lambda parts=parts: next(parts, b""))  # type: ignore[misc]
        with Client(run, timeout=5.0) as client, pytest.raises((NotLive, Refused)):
            client.call("kill")
        talker.close()
        run.control_socket.unlink()


@needs_root
def test_a_run_of_another_user_is_not_controlled(run: RunDirectory) -> None:
    """Nothing is sent, and nobody is signalled."""
    os.chown(run.path, STRANGER, -1)
    with pytest.raises(RunDirectoryError, match=f"The run r belongs to uid {STRANGER}, who alone can control it"):
        Client(run)
    with pytest.raises(RunDirectoryError, match="who alone can control it"):
        signal_guardian(run, at_once=True)


def test_a_run_that_others_can_change_is_not_controlled(run: RunDirectory) -> None:
    """Its files may be anybody's."""
    run.path.chmod(0o777)
    with pytest.raises(RunDirectoryError, match=f"chmod go-w {run.path}"):
        Client(run)


@needs_root
@pytest.mark.process
@pytest.mark.timeout(30)
def test_nothing_is_sent_to_a_process_of_another_user(run: RunDirectory) -> None:
    """Although it listens in the run's own directory, as where that could be written once."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(run.control_socket))
        pid = os.fork()  # the kernel records who listens, not who has made the socket
        if pid == 0:
            os.setuid(STRANGER)
            listener.listen(8)
            os._exit(0)
        os.waitpid(pid, 0)
        with pytest.raises(NotLive, match=f"Nothing was sent .* it belongs to another user, uid {STRANGER}"):
            Client(run)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(100) == b""
