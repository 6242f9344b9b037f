"""The guardian's account of a supervisor that was killed: the result first, whatever becomes of the message."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from clusterkit.supervisor.crashes import supervisor_lost


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run's directory without a result."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(home))
    directory = home / "runs" / "r-1"
    directory.mkdir(parents=True)
    return directory


class Gone(io.StringIO):
    """A stream whose reader is gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def closed() -> io.StringIO:
    """A stream that is closed."""
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stderr", [io.StringIO(), Gone(), closed(), None], ids=["open", "gone", "closed", "none"])
def test_the_result_is_there_whatever_becomes_of_the_message(
    run: Path, monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO | None
) -> None:
    """A closed terminal loses the message alone."""
    monkeypatch.setattr(sys, "stderr", stderr)
    supervisor_lost("r-1", "was killed by SIGSEGV", 3)
    assert json.loads((run / "result.json").read_text())["reason"] == "the supervisor was killed by SIGSEGV"
    assert [path.name for path in run.iterdir()] == ["result.json"]


def test_a_result_that_is_there_stays(run: Path) -> None:
    """The supervisor had written it before it was killed."""
    (run / "result.json").write_text("{}")
    supervisor_lost("r-1", "was killed by SIGKILL", 0)
    assert (run / "result.json").read_text() == "{}"


def test_a_result_that_can_not_be_written_is_no_error(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is shown all the same."""
    (run / ".result.json.part").mkdir()
    supervisor_lost("r-1", "was killed by SIGKILL", 3)
    supervisor_lost("no-such-run", "was killed by SIGKILL", 3)
    assert capsys.readouterr().err == 2 * (
        "clusterkit: the supervisor was killed by SIGKILL; 3 processes of the run were ended.\n"
    )
