"""`--resume RUN` goes on where an earlier run stopped, and leaves that run as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import CHILDREN, Command, Up

pytestmark = [pytest.mark.process, pytest.mark.timeout(60), pytest.mark.slow]

Start = Callable[..., Up]
Clusterkit = Callable[..., Command]
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


def test_a_run_without_a_checkpoint_is_not_resumed(up: Start, tmp_path: Path) -> None:
    """It would begin at step 0 and end well. The message says what to add."""
    old = up("--run-id", "first", CHILDREN / "says.py", "3")
    assert old.wait(20) == 0, old.output
    refused = up("--run-id", "second", "--resume", "first", CHILDREN / "says.py", "3")
    assert refused.wait(20) == 2, refused.output
    where = f"--resume first: that run left no checkpoint in {old.run / 'checkpoints'}, so there is nothing to resume."
    assert where in refused.output
    assert "clusterkit.training.Backup()" in refused.output
    assert not (old.home / "runs" / "second").exists()


def test_a_checkpoint_in_another_directory_can_be_resumed(up: Start, tmp_path: Path) -> None:
    """The program finds it by itself, and has reported it; not once it is gone."""
    saved = tmp_path / "own"
    program = tmp_path / "saves.py"
    program.write_text(
        "import json, os, pathlib, sys\npath = pathlib.Path(sys.argv[1])\npath.mkdir(exist_ok=True)\n"
        "(path / 'ckpt-3.index').touch()\npipe = os.open(os.environ['CLUSTERKIT_PROGRESS'], os.O_WRONLY)\n"
        "report = dict(kind='checkpoint', attempt=1, step=3, path=str(path / 'ckpt-3'))\n"
        "os.write(pipe, json.dumps(report).encode() + b'\\n')\n"
    )
    assert up("--run-id", "first", program, saved).wait(20) == 0
    again = up("--run-id", "second", "--resume", "first", program, saved)
    assert again.wait(20) == 0, again.output
    (saved / "ckpt-3.index").unlink()
    refused = up("--run-id", "third", "--resume", "first", program, saved)
    assert refused.wait(20) == 2
    assert "left no checkpoint" in refused.output


def test_a_dangling_link_does_not_stop_a_resumption(up: Start) -> None:
    """A program may have removed what a link leads to."""
    old = first(up)
    (old.run / "checkpoints" / "latest").symlink_to("gone")
    new = up("--run-id", "second", "--resume", "first", ROLES, "--steps", "20")
    assert resumed_at(new) == 10
    assert (new.run / "checkpoints" / "latest").is_symlink()


@pytest.mark.parametrize("deleted", [False, True], ids=["kept", "created-again"])
def test_two_live_runs_do_not_share_a_checkpoint_directory(up: Start, tmp_path: Path, deleted: bool) -> None:
    """The second one is refused, however the directory is spelled, and the first one is named."""
    saved = tmp_path / "saved"
    live = up("--run-id", "live", "--checkpoint-dir", saved, ROLES, "--steps", "100000")
    live.wait_for("Progressed", deadline=20)
    if deleted:  # as some programs do
        shutil.rmtree(saved)
        saved.mkdir()
    (tmp_path / "link").symlink_to(saved)
    for words in (("--run-id", "second"), ("--run-id", "second", "--continue")):
        refused = up(*words, "--checkpoint-dir", tmp_path / "link", ROLES)
        assert refused.wait(20) == 2, refused.output
        assert "The live run live already uses the checkpoint directory" in refused.output
        assert "or stop that run first: clusterkit down live" in refused.output
        assert not (live.home / "runs" / "second").exists()
    live.signal(15)
    assert live.wait(20) == 143
    after = up("--run-id", "second", "--checkpoint-dir", saved, ROLES, "--steps", "3")
    assert after.wait(20) == 0, after.output


def test_a_run_is_not_removed_while_another_saves_to_its_directory(up: Start, clusterkit: Clusterkit) -> None:
    """Its checkpoints have become those of the other run."""
    old = first(up)
    live = up("--run-id", "second", "--checkpoint-dir", old.run / "checkpoints", ROLES, "--steps", "100000")
    live.wait_for("Progressed", deadline=20)
    rm = clusterkit("rm", "first")
    assert rm.wait(20) == 1
    assert "The run first was not removed: a live run saves to" in rm.output
    prune = clusterkit("prune", "--keep", "0")
    assert prune.wait(20) == 0, prune.output
    assert old.run.exists()
    live.signal(15)
    assert live.wait(20) == 143
