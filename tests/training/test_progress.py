"""Progress messages: what goes through the FIFO, and that nothing of it can disturb training."""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.training import progress


class Fifo:
    """A FIFO with its read end open, as the supervisor holds it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read(self) -> bytes:
        chunks: list[bytes] = []
        while True:
            try:
                chunk = os.read(self.fd, 1 << 20)
            except BlockingIOError:
                return b"".join(chunks)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)

    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.read().splitlines()]


@pytest.fixture
def fifo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fifo]:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setenv("CLUSTERKIT_PROGRESS", str(tmp_path / "progress"))
    monkeypatch.setenv("CLUSTERKIT_ATTEMPT", "2")
    monkeypatch.setattr(progress, "_channel", None)
    made = Fifo(tmp_path / "progress")
    yield made
    opened = progress._channel
    if opened is not None and opened._fd is not None:
        os.close(opened._fd)
    os.close(made.fd)


def refuse_constants(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


def test_step_alone(fifo: Fifo) -> None:
    """The fast path sends kind, attempt and step."""
    progress.report(12)
    assert fifo.messages() == [{"kind": "progress", "attempt": 2, "step": 12}]


def test_metrics(fifo: Fifo) -> None:
    """Metrics go along as numbers; what float() takes becomes a float."""
    progress.report(12, loss=0.25, seen=7, half=Fraction(1, 2))
    assert fifo.messages()[0]["metrics"] == {"loss": 0.25, "seen": 7, "half": 0.5}


def test_total(fifo: Fifo) -> None:
    """The number of steps in all goes along, with and without metrics."""
    progress.report(12, total=100)
    progress.report(13, total=100, loss=0.25)
    assert fifo.messages() == [
        {"kind": "progress", "attempt": 2, "step": 12, "total": 100},
        {"kind": "progress", "attempt": 2, "step": 13, "total": 100, "metrics": {"loss": 0.25}},
    ]


def test_not_finite(fifo: Fifo) -> None:
    """NaN and infinities are null, for JSON has no word for them."""
    progress.report(1, loss=math.nan, rate=-math.inf)
    line = fifo.read()
    assert json.loads(line, parse_constant=refuse_constants)["metrics"] == {"loss": None, "rate": None}


def test_no_number(fifo: Fifo) -> None:
    """A metric that is no number is left out, without an error."""
    progress.report(1, loss=0.5, name="text", big=10**400, nothing=None)  # type: ignore[arg-type]
    assert fifo.messages()[0]["metrics"] == {"loss": 0.5}


def test_oversize(fifo: Fifo) -> None:
    """Metrics that do not fit into a line are left out; the step and the other metrics arrive."""
    progress.report(5, **{"x" * 5000: 1.0, "loss": 0.5})
    progress.report(6, **{f"metric_{n}": 0.1 for n in range(1000)})
    lines = fifo.read().splitlines(keepends=True)
    assert all(len(line) < progress.LINE_LIMIT for line in lines)
    assert json.loads(lines[0])["metrics"] == {"loss": 0.5}
    assert len(json.loads(lines[1])["metrics"]) > 100


@given(st.integers(0, 2**63 - 1), st.dictionaries(st.text(max_size=300), st.floats() | st.integers(), max_size=40))
def test_any_metrics_make_one_short_line(step: int, metrics: dict[str, float]) -> None:
    """Whatever the metrics, the line is JSON and short enough for an atomic write."""
    text = progress._encode(metrics, progress.LINE_LIMIT - 160)
    assert len(text) < progress.LINE_LIMIT - 160
    assert set(json.loads(b"{%b}" % text, parse_constant=refuse_constants)) <= set(metrics)
    assert len(b'{"kind":"progress","attempt":1000000,"step":%d,"total":%d,"metrics":{}}\n' % (step, step)) < 160


@pytest.mark.parametrize("step", [-1, 1.5, "3", None, 2**63])
def test_bad_step(fifo: Fifo, step: Any) -> None:
    """An invalid step is an error with a clear message, with and without a supervisor."""
    with pytest.raises(ValueError, match="must be an integer from 0 up"):
        progress.report(step)
    if step is not None:
        with pytest.raises(ValueError, match="total must be an integer from 0 up"):
            progress.report(1, total=step)


def test_integer_like_step(fifo: Fifo) -> None:
    """Any integer type is accepted as a step, such as NumPy's."""

    class Seven:
        def __index__(self) -> int:
            return 7

    progress.report(Seven())  # type: ignore[arg-type]
    assert fifo.messages()[0]["step"] == 7


def test_without_supervisor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a FIFO, its file or a reader, reports are discarded silently."""
    os.mkfifo(tmp_path / "unread")
    for path in ("", str(tmp_path / "missing"), str(tmp_path / "unread"), str(tmp_path)):
        monkeypatch.setenv("CLUSTERKIT_PROGRESS", path)
        monkeypatch.setattr(progress, "_channel", None)
        progress.report(1, loss=0.5)
        progress.channel().send("ready")


def fill() -> int:
    """Report until the FIFO is full."""
    for step in range(100_000):
        progress.report(step)
    return 100_000


def test_full_fifo_never_blocks(fifo: Fifo) -> None:
    """If the supervisor does not read, reports are lost but never block; lines stay whole, and later ones arrive."""
    sent = fill()
    steps = [message["step"] for message in fifo.messages()]
    assert 0 < len(steps) < sent
    assert steps == list(range(len(steps)))
    progress.report(7)
    assert fifo.messages()[0]["step"] == 7


def test_checkpoint_message_outlives_a_full_fifo(fifo: Fifo) -> None:
    """A message that must not be lost is sent before the next report."""
    progress.report(0)
    fill()
    progress.channel().send("checkpoint", step=100, path="/runs/ckpt-100")
    fifo.read()
    progress.report(101)
    assert fifo.messages() == [
        {"kind": "checkpoint", "attempt": 2, "step": 100, "path": "/runs/ckpt-100"},
        {"kind": "progress", "attempt": 2, "step": 101},
    ]


def test_reader_gone(fifo: Fifo) -> None:
    """The supervisor's death does not kill training: no SIGPIPE, no error."""
    progress.report(1)
    spare = os.open(os.devnull, os.O_RDONLY)
    os.dup2(spare, fifo.fd)
    os.close(spare)
    progress.report(2, loss=0.5)
    progress.channel().send("ready")


def test_threads_do_not_mix_lines(fifo: Fifo) -> None:
    """Lines of several threads arrive whole."""

    def report_many() -> None:
        for step in range(200):
            progress.report(step, loss=0.5)

    threads = [threading.Thread(target=report_many) for _ in range(4)]
    progress.report(0)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fifo.messages()) == 801


def test_fork_goes_on_reporting(fifo: Fifo) -> None:
    """A forked child reports through its parent's descriptor."""
    progress.report(1)
    child = os.fork()
    if child == 0:
        progress.report(2)
        os._exit(0)
    os.waitpid(child, 0)
    assert [message["step"] for message in fifo.messages()] == [1, 2]


def test_descriptor_is_not_inherited_by_programs(fifo: Fifo) -> None:
    """A program started by the task does not hold the FIFO open."""
    progress.report(1)
    opened = progress._channel
    assert opened is not None
    assert opened._fd is not None
    assert not os.get_inheritable(opened._fd)


def test_a_phase_is_told_at_both_ends(fifo: Fifo) -> None:
    """The end is reported even after an exception."""

    def evaluate() -> None:
        with progress.phase("evaluation"):
            progress.report(3)
            raise KeyError

    with pytest.raises(KeyError):
        evaluate()
    assert fifo.messages() == [
        {"kind": "phase", "attempt": 2, "phase": "evaluation", "begun": True},
        {"kind": "progress", "attempt": 2, "step": 3},
        {"kind": "phase", "attempt": 2, "phase": "evaluation", "begun": False},
    ]


def test_a_phase_outside_clusterkit_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program runs the same."""
    monkeypatch.delenv("CLUSTERKIT_PROGRESS", raising=False)
    monkeypatch.setattr(progress, "_channel", None)
    with progress.phase("evaluation"):
        pass
