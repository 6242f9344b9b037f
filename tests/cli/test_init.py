"""`clusterkit init`: the files that it writes run, and none that is there is overwritten."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from clusterkit.cli import cli
from clusterkit.cli.commands.init import FILES, STARTER, CannotWriteFiles, examples, write
from clusterkit.examples import example_directory
from clusterkit.job.jobfile import read_job_file
from tests.commands import Clusterkit
from tests.environment import clean_environment


def init(*words: str | Path) -> Result:
    """Call it in this process."""
    return CliRunner().invoke(cli, ["init", *map(str, words)])


def names_in(place: Path) -> list[str]:
    """The files of a directory."""
    return sorted(path.name for path in place.iterdir())


def test_it_writes_a_job_a_program_and_a_test(tmp_path: Path) -> None:
    """Into a directory that it makes, and says what to type next."""
    place = tmp_path / "my project" / "a"
    result = init(place)
    assert (result.exit_code, result.stderr) == (0, "")
    assert names_in(place) == sorted(FILES)
    commands = [f"cd '{place}'", "clusterkit up -f job.toml", "clusterkit exam -f job.toml", "pytest"]
    assert [line.strip() for line in result.output.splitlines()[1:]] == commands
    assert {name: (place / name).read_bytes() for name in FILES} == {
        name: (STARTER / name).read_bytes() for name in FILES
    }


def test_it_writes_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a directory."""
    monkeypatch.chdir(tmp_path)
    assert init().output.startswith("Wrote job.toml, train.py, test_train.py here.")
    assert names_in(tmp_path) == sorted(FILES)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """One error names all that is there; the rest is not written either."""
    (tmp_path / "train.py").write_text("mine")
    (tmp_path / "job.toml").symlink_to("nowhere")
    result = init(tmp_path)
    assert result.exit_code == 2
    there = f"{tmp_path}/job.toml, {tmp_path}/train.py already exist. Nothing was written"
    assert there in result.stderr
    assert names_in(tmp_path) == ["job.toml", "train.py"]
    assert (tmp_path / "train.py").read_text() == "mine"


def test_what_can_not_be_written_is_one_clear_error(tmp_path: Path) -> None:
    """And nothing of it stays."""
    (tmp_path / "file").touch()
    for place, why in (("file", "is not a directory"), ("file/below", "can't be written: Not a directory")):
        result = init(tmp_path / place)
        assert (result.exit_code, why in result.stderr) == (2, True), result.stderr
    assert init("").stderr == "clusterkit: DIR is empty. Name a directory, or leave it out to write here.\n"
    assert init(tmp_path / ("x" * 300)).stderr.endswith("can't be written: file name too long.\n")
    with pytest.raises(CannotWriteFiles, match="can't be written: No such file"):
        write(tmp_path / "new", {"one": b"1", "no/two": b"2"})
    assert names_in(tmp_path / "new") == []


def test_every_line_of_the_job_file_is_valid(tmp_path: Path) -> None:
    """Those that are comments too, all at once."""
    text = (STARTER / "job.toml").read_text()
    every = re.sub(r"^# (?=[a-z-]+ = |\[)", "", text, flags=re.M)
    assert every.count("\n#") < text.count("\n#") - 8
    read = read_job_file(every, str(tmp_path / "job.toml"))
    assert not read.problems
    assert {"workers", "restart_budget", "fault", "task"} <= read.options.keys()
    assert not {"ps", "evaluator"} & read.options.keys()  # the program beside it is for workers


def test_examples_are_the_programs_that_show_how_to_run_them() -> None:
    """Not the modules that they share."""
    names = dict(examples())
    assert "ps_train" in names
    assert "digits" not in names
    for name, commands in names.items():
        for command in commands:
            assert re.match(rf"clusterkit up (.* )?{name}\.py\b", command)


@pytest.mark.parametrize("name", dict(examples()))
def test_an_example_comes_with_the_modules_that_it_imports(tmp_path: Path, name: str) -> None:
    """It imports nothing of the workloads that is not there."""
    result = init("--example", name, tmp_path)
    assert result.exit_code == 0, result.output
    assert f"{name}.py" in names_in(tmp_path)
    shared = {path.stem for path in example_directory().glob("*.py")}
    for path in tmp_path.iterdir():
        imported = re.findall(r"^\s*(?:import|from) (\w+)", path.read_text(), re.M)
        assert {f"{one}.py" for one in imported if one in shared} <= {*names_in(tmp_path)}


def test_an_example_that_does_not_exist(tmp_path: Path) -> None:
    """Those that there are, are listed; a path is no name."""
    result = init("--example", "ps_trian", tmp_path)
    assert result.exit_code == 2
    assert "There is no example 'ps_trian'. There are all_reduce, " in result.stderr
    assert "Did you mean ps_train?" in result.stderr
    assert init("--example", "../cli/conftest", tmp_path).exit_code == 2
    assert init("--example", "digits", tmp_path).exit_code == 2
    assert names_in(tmp_path) == []


def test_packages_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what installs them."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "sklearn" else name)
    result = init("--example", "ps_train.py", tmp_path)
    assert result.stderr == "It imports sklearn, which is not installed here: pip install scikit-learn\n"


def test_examples_are_completed() -> None:
    """By their names."""
    command = cli.get_command(click.Context(cli), "init")
    assert command is not None
    [option] = [param for param in command.params if param.name == "example"]
    found = option.shell_complete(click.Context(command), "ps_")
    assert [item.value for item in found] == ["ps_fit", "ps_train"]


@pytest.mark.process
def test_config_accepts_the_job(ck: Clusterkit, tmp_path: Path) -> None:
    """As `up` would."""
    ck("init", tmp_path / "p")
    assert "2 workers. Run it with" in ck("config", "-f", tmp_path / "p/job.toml").out


@pytest.mark.process
@pytest.mark.tensorflow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_it_says_to_try_works(tmp_path: Path, home: Path) -> None:
    """The commands that it prints. tests/packaging runs an example."""
    place = tmp_path / "p"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**clean_environment(home), "PATH": path}

    def ran(command: str, cwd: Path) -> str:
        done = subprocess.run(
            ["sh", "-c", command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=400
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    ran("clusterkit init p", tmp_path)
    assert "step 320" in ran("clusterkit up -f job.toml", place)
    # All chapters take minutes. The test of the project examines resume, too.
    assert "2 of 2 cells passed" in ran("clusterkit exam --chapter equality -f job.toml", place)
    assert "3 passed" in ran("pytest -p no:cacheprovider -p clusterkit.pytest_plugin", place)
