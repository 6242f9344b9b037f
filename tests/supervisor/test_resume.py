"""`--resume RUN` goes on where an earlier run stopped, and leaves that run as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, Up

pytestmark = [pytest.mark.process, pytest.mark.timeout(60), pytest.mark.slow]

Start = Callable[..., Up]
ROLES = CHILDREN / "roles.py"


def first(up: Start, *flags: str | Path) -> Up:
    """A run of ten steps, called `first`."""
    run = up("--run-id", "first", *flags, ROLES, "--steps", "10")
    assert run.wait(20) == 0
    return run


def resumed_at(run: Up) -> int:
    """The step from which a run that ended well went on."""
    assert run.wait(20) == 0, run.output
    step: int = run.events("Resumed")[0]["step"]
    return step


def test_a_new_run_goes_on_from_the_old_ones_checkpoint(up: Start) -> None:
    """The tasks learn that they resume, and the old run's checkpoint stays where it was."""
    old = first(up)
    new = up("--run-id", "second", "--resume", "first", ROLES, "--steps", "20")
    assert resumed_at(new) == 10
    assert (old.run / "checkpoints" / "step").read_text() == "10"
    assert (new.run / "checkpoints" / "step").read_text() == "20"
    assert new.job["job"]["resume"] == "first"
    assert resumed_at(up("--run-id", "third", "--resume", "second", ROLES, "--steps", "30")) == 20


def test_a_part_of_the_run_id_is_enough(up: Start) -> None:
    """If it means one run; if it could mean two, both are named."""
    first(up)
    assert resumed_at(up("--run-id", "other", "--resume", "fir", ROLES, "--steps", "20")) == 10
    assert resumed_at(up("--run-id", "first-again", "--resume", "first", ROLES, "--steps", "20")) == 10
    ambiguous = up("--resume", "f", ROLES)
    assert ambiguous.wait(20) == 2
    assert "'f' matches several runs: first, first-again" in ambiguous.output


def test_a_checkpoint_that_is_written_in_place_is_the_new_runs_own(up: Start) -> None:
    """The two runs share no file."""
    old = up("--run-id", "first", CHILDREN / "overwrites.py")
    assert old.wait(20) == 0
    new = up("--run-id", "second", "--resume", "first", CHILDREN / "overwrites.py")
    assert new.wait(20) == 0
    assert (old.run / "checkpoints" / "model.keras").read_text() == "first\n"
    assert (new.run / "checkpoints" / "model.keras").read_text() == "first\nsecond\n"


def test_a_live_run_is_not_resumed(up: Start) -> None:
    """Two runs would write what one of them reads."""
    live = up("--run-id", "live", ROLES, "--steps", "100000")
    live.wait_for("Progressed", deadline=20)
    refused = up("--run-id", "second", "--resume", "live", ROLES)
    assert refused.wait(20) == 2
    assert "The run live is still running, so it can't be resumed" in refused.output
    assert not (live.home / "runs" / "second").exists()
    live.signal(15)
    assert live.wait(20) == 143


def test_checkpoints_go_where_they_are_asked_to(up: Start, tmp_path: Path) -> None:
    """Runs with the same --checkpoint-dir share what is in it, with or without --resume."""
    saved = tmp_path / "saved"
    first(up, "--checkpoint-dir", saved)
    assert (saved / "step").read_text() == "10"
    shared = up("--run-id", "second", "--checkpoint-dir", saved, ROLES, "--steps", "20")
    assert resumed_at(shared) == 10
    both = up("--run-id", "third", "--checkpoint-dir", saved, "--resume", "second", ROLES, "--steps", "30")
    assert resumed_at(both) == 20
    assert (saved / "step").read_text() == "30"


def test_a_run_with_a_checkpoint_dir_is_resumed_from_there(up: Start, tmp_path: Path) -> None:
    """The old run's job.json says where its checkpoints are; the new run has its own."""
    saved = tmp_path / "saved"
    first(up, "--checkpoint-dir", saved)
    new = up("--run-id", "second", "--resume", "first", ROLES, "--steps", "20")
    assert resumed_at(new) == 10
    assert (saved / "step").read_text() == "10"
    assert (new.run / "checkpoints" / "step").read_text() == "20"


def test_what_is_in_a_checkpoint_dir_is_not_replaced(up: Start, home: Path, tmp_path: Path) -> None:
    """It may be the only copy of other weights. The message says both ways out, and nothing is left of the new run."""
    first(up)
    (saved := tmp_path / "saved").mkdir()
    (saved / "step").write_text("77")
    refused = up("--run-id", "second", "--resume", "first", "--checkpoint-dir", saved, ROLES, "--steps", "20")
    assert refused.wait(20) == 2
    assert f"--checkpoint-dir {saved} is not empty" in refused.output
    assert "omit --resume" in refused.output
    assert "an empty directory" in refused.output
    assert (saved / "step").read_text() == "77"
    assert not (home / "runs" / "second").exists()
