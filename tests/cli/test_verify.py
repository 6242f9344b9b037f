"""--verify on the command line, in the environment, in job files and in Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from clusterkit.api.options import gathered
from clusterkit.cli import cli
from clusterkit.cli import verification as cli_verification
from clusterkit.cli.verification import NotVerified, hint, verified
from clusterkit.exam import verifying
from clusterkit.job.jobfile import read_job_file
from clusterkit.job.options import OPTIONS, GivenOptions, flags_of
from clusterkit.supervisor.prepare import Prepared
from clusterkit.words.job import JobSpec
from clusterkit.words.verification import Equality, Verification, VerifyRequest
from tests.histories import job


@pytest.mark.parametrize(
    ("line", "env", "value", "rest"),
    [
        ("--verify train.py", {}, "true", []),
        ("--verify 20 train.py", {}, "20", []),
        ("--verify=20 train.py", {}, "20", []),
        ("--verify required train.py", {}, '"required"', []),
        ("--verify required:20 train.py 20", {}, '"required:20"', ["20"]),
        ("--verify --workers 2 train.py", {}, "true", []),
        ("--workers 2 --verify -- train.py", {}, "true", []),
        ("--verify=no train.py", {}, "false", []),
        ("train.py --verify 20", {}, "", ["--verify", "20"]),
        ("--verify train.py --verify 3", {}, "true", ["--verify", "3"]),
        ("-- train.py --verify 20", {}, "", ["--verify", "20"]),
        ("train.py", {"CLUSTERKIT_CONFIG_VERIFY": "20"}, "20", []),
        ("train.py", {"CLUSTERKIT_CONFIG_VERIFY": "1"}, "1", []),
        ("train.py", {"CLUSTERKIT_CONFIG_VERIFY": "true"}, "true", []),
        ("--verify=required train.py", {"CLUSTERKIT_CONFIG_VERIFY": "20"}, '"required"', []),
    ],
)
def test_the_program_is_not_taken_for_the_value(
    line: str, env: Mapping[str, str], value: str, rest: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A word that is a value follows --verify; any other word is the program."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)\n")
    done = CliRunner().invoke(cli, ["config", *line.split()], auto_envvar_prefix="CLUSTERKIT", env=env)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert f'program = "{tmp_path / "train.py"}"' in lines
    assert [one for one in lines if one.startswith("verify = ")] == ([f"verify = {value}"] if value else [])
    assert f"args = [{', '.join(f'{chr(34)}{word}{chr(34)}' for word in rest)}]" in lines


@pytest.mark.parametrize("words", [["--verify=x"], ["--verify=0"], ["--verify="], ["--verify", "1001"]])
def test_a_value_that_is_none(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence, and exit code 2."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)\n")
    done = CliRunner().invoke(cli, ["config", *words, "train.py"], auto_envvar_prefix="CLUSTERKIT")
    assert done.exit_code == 2
    assert "--verify" in done.stderr


@pytest.mark.parametrize(
    ("toml", "value"), [("true", "yes"), ("false", "no"), ("20", "20"), ('"required"', "required"), ('"20"', "20")]
)
def test_job_files(toml: str, value: str) -> None:
    """`verify = true | 20 | "required"`."""
    assert read_job_file(f"verify = {toml}", "job.toml").options == {"verify": value}


@pytest.mark.parametrize("toml", ["1.5", "[]", '"often"', "0", "{}", '""'])
def test_job_files_with_another_value(toml: str) -> None:
    """The problem names the file and the key."""
    (problem,) = read_job_file(f"verify = {toml}", "job.toml").problems
    assert problem.startswith("job.toml: verify: ")


def test_keywords() -> None:
    """Python's own types, too."""
    assert gathered("train.py", [], {"verify": True}).options["verify"] == "yes"
    assert gathered("train.py", [], {"verify": 20}).options["verify"] == "20"
    (problem,) = gathered("train.py", [], {"verify": 1.5}).problems  # type: ignore[typeddict-item]
    assert problem.startswith("verify=1.5: ")


def test_flags() -> None:
    """What `gathered` or a job file gives can be written as a flag again."""
    assert [*flags_of(OPTIONS["verify"], "yes"), *flags_of(OPTIONS["verify"], "20")] == ["--verify=yes", "--verify=20"]


class Known:
    """Stands for a verifier that has its verdict already."""

    def __init__(self, verdict: Verification) -> None:
        self.verdict = verdict
        self.options = GivenOptions({})

    def __call__(self, job: JobSpec, options: GivenOptions, request: VerifyRequest) -> Known:
        self.options = options
        return self

    def known(self) -> Verification:
        return self.verdict


@pytest.mark.parametrize(
    ("equality", "value", "begins"),
    [
        (Equality.EQUAL, "required", True),
        (Equality.DIFFERENT, "required", False),
        (Equality.NOT_COMPARABLE, "required:3", False),
        (Equality.DIFFERENT, "yes", True),
        (Equality.NOT_COMPARABLE, "7", True),
    ],
)
def test_required(
    equality: Equality, value: str, begins: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job begins only if its steps are equal."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path))
    found = Verification(equality, 5, "Why.")
    monkeypatch.setattr(verifying, "Verifier", Known(found))
    prepared = Prepared(replace(job(workers=2), verify=value), None, None, ())
    if begins:
        assert verified(prepared, GivenOptions({}), None, True).prepared.verification == found
        return
    with pytest.raises(NotVerified, match="does not begin") as error:
        verified(prepared, GivenOptions({}), None, True)
    assert error.value.exit_code == 3


def test_a_single_task_is_not_verified() -> None:
    """There is nothing that it could be compared with."""
    prepared = Prepared(replace(job(workers=1), verify="yes"), None, None, ())
    assert verified(prepared, GivenOptions({}), None, True).prepared.verification is None


def test_the_hint_comes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a gang, and for each program."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path))
    assert hint(job(workers=1)) is None
    assert hint(job(workers=2, ps=1)) is None
    assert hint(replace(job(workers=2), verify="yes")) is None
    told = hint(replace(job(workers=2), tensorboard=True, resume="20261127-1"))
    assert told == cli_verification.HINT.format("clusterkit exam --workers 2 train.py")
    assert hint(job(workers=2)) is None


def test_the_runs_do_without_what_acts_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks, pages, faults and captures, also if the job file asks for them."""
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path))
    file = tmp_path / "job.toml"
    file.write_text('program = "train.py"\nworkers = 2\ndashboard = true\non-end = "touch x"\nkeras = 2\n')
    known = Known(Verification(Equality.EQUAL, 5))
    plain = verifying.Verifier
    monkeypatch.setattr(verifying, "Verifier", known)
    prepared = Prepared(replace(job(workers=2), verify="yes"), None, None, ())
    verified(prepared, GivenOptions({"file": str(file), "fault": ["kill worker:1 @ step=1"]}), None, True)
    verifier = plain(prepared.job, known.options, VerifyRequest())
    assert verifier.trials.template.options.keys() == {"program", "workers", "keras"}
