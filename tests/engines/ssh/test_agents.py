"""How agents are started, with a program in place of ssh."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clusterkit import __version__
from clusterkit.engines.ssh import engine
from clusterkit.engines.ssh.engine import SshAgents
from clusterkit.words.errors import BadJob
from tests.support import wait_until

pytestmark = [pytest.mark.process, pytest.mark.timeout(30)]
# Answers as sshd's host does: with the words of the variable ANSWER_<host>; what it is sent is in a file.
FAKE = f"""#!{sys.executable}
import os, re, sys
host, command = sys.argv[-2:]
mark = re.findall("[0-9a-f]{{32}}", command)[-1]
print(os.environ["ANSWER_" + host].format(mark=mark), flush=True)
sent = sys.stdin.read()
open(os.path.join(os.path.dirname(__file__), host), "w").write(sent)
"""
Start = Callable[..., SshAgents]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start agents with these answers of their hosts."""
    (tmp_path / "ssh").write_text(FAKE)
    (tmp_path / "ssh").chmod(0o755)
    (tmp_path / "key").write_text("KEY")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    started: list[SshAgents] = []

    def make(endpoint: str = "[::]:7077", **answers: str) -> SshAgents:
        for host, answer in answers.items():
            monkeypatch.setenv(f"ANSWER_{host}", answer)
        started.append(SshAgents(list(answers), "python3", tmp_path / "logs"))
        started[-1].start(endpoint, tmp_path / "key")
        return started[-1]

    yield make
    for one in started:
        one.stop()


def version(peer: str, number: str = __version__) -> str:
    """A host's answer, after some noise."""
    return f"Welcome!\n{{mark}} {number} {peer}"


@pytest.mark.parametrize(
    ("endpoint", "peers", "sent"),
    [
        ("[::]:7077", ("10.0.0.1", "10.1.0.1"), ("10.0.0.1:7077", "10.1.0.1:7077")),
        ("[::]:7077", ("127.0.0.1", "10.1.0.1"), ("10.1.0.1:7077", "10.1.0.1:7077")),
        ("[::]:7077", ("::1", "::1"), ("[::1]:7077", "[::1]:7077")),
        ("0.0.0.0:7077", ("fd00::1", "127.0.0.1"), ("[fd00::1]:7077", "[fd00::1]:7077")),
        ("head.lab:7077", ("10.0.0.1", "10.1.0.1"), ("head.lab:7077", "head.lab:7077")),
    ],
)
def test_a_host_learns_how_it_reaches_the_supervisor(
    start: Start, tmp_path: Path, endpoint: str, peers: tuple[str, str], sent: tuple[str, str]
) -> None:
    """At the address from which its ssh came; on this machine itself, where the other hosts reach it."""
    running = start(endpoint, a=version(peers[0]), b=version(peers[1]))
    told = [tmp_path / host for host in ("a", "b")]

    def have_ended() -> bool:
        return running.failed() is not None and all(file.exists() and file.read_text() for file in told)

    wait_until(have_ended, 10, "the end of both")
    assert tuple(file.read_text() for file in told) == tuple(f"{one}\nKEY" for one in sent)


@pytest.mark.parametrize(
    "answer",
    ["{{mark}} {v} nonsense", "{{mark}} {v} $(x)", "{{mark}} 0.0.9 10.0.0.1", "{{mark}} none 10.0.0.1", "{{mark}}",
     "{{mark}} \x1b[31m 10.0.0.1", "x{{mark}} {v} 10.0.0.1", "deadbeef {v} 10.0.0.1", "\x1b]0;x\x07", "{{mark}} " * 9],
)  # fmt: skip
def test_one_bad_answer_keeps_the_key_from_all(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """The error names that host, in characters that can be printed."""
    monkeypatch.setattr(engine, "ANSWER_WITHIN", 1.0)
    running = start(good=version("10.0.0.1"), bad=answer.format(v=__version__))
    with pytest.raises(BadJob) as found:
        wait_until(running.failed, 10, "an error")
    assert found.value.problems[0].startswith("bad")
    assert all(line.isprintable() for line in found.value.problems)
    running.stop()
    assert [name for name in ("good", "bad") if (tmp_path / name).exists() and (tmp_path / name).read_text()] == []
