"""What people type first: names of commands and options from elsewhere, job files and interpreters as programs."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.cli import COMMANDS, OTHER_NAMES, cli
from clusterkit.cli.options import given as options_given
from clusterkit.job.program import with_program, without_interpreter
from clusterkit.job.spec import describe
from tests.terminal import on_terminal


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a program and a job file, and a home without runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLUSTERKIT_HOME", str(tmp_path / "home"))
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "job.toml").write_bytes(b'\xef\xbb\xbfprogram = "train.py"\nworkers = 2\n')
    return tmp_path


def call(line: str) -> Result:
    """Call a command in this process."""
    return CliRunner().invoke(cli, line.split(), auto_envvar_prefix="CLUSTERKIT")


TYPED = {  # a command line: its exit code, and what it prints to standard error
    "list": (0, "clusterkit: `list` is called `ls` here: clusterkit ls\n"),
    "status": (2, "clusterkit: `status` is called `ps` here: clusterkit ps\nclusterkit: No run is live."),
    "stop": (2, "clusterkit: `stop` is called `down` here: clusterkit down\nclusterkit: No run is live."),
    "stop mine": (2, "clusterkit: `stop` is called `down` here: clusterkit down mine\n"),
    "run gone": (2, "clusterkit: `run` is called `up` here: clusterkit up gone\nclusterkit: There is no program gone."),
    "gone.py 3": (
        2,
        "clusterkit: A program is run with `up`: clusterkit up gone.py 3\nclusterkit: There is no program",
    ),
    "gone.toml": (2, "clusterkit: gone.toml is a job file: clusterkit up -f gone.toml\nclusterkit: The job file"),
    "python gone.py": (2, "clusterkit: There is no program gone.py."),
    "--workers 2 train.py": (2, "Error: --workers is an option of `up`: clusterkit up --workers 2 train.py\n"),
    "--wrokers 2 train.py": (2, "Error: No such option '--wrokers'."),
    "up -np 2 train.py": (2, "Error: No such option '-np'. It is called --workers here.\n"),
    "up --num_workers=2 train.py": (2, "Error: No such option '--num_workers'. It is called --workers here.\n"),
    "up --nnodes 1 --nproc-per-node 2 --rdzv-id x train.py --port 1": (
        2,
        "Error: No such option '--nnodes'. It is called --hosts here.\n"
        "No such option '--nproc-per-node'. It is called --workers here.\n"
        "No such option '--rdzv-id'. It is called --run-id here.\n",
    ),
    "up --wrokers 2 --gpus 1 train.py": (2, "Error: No such option '--wrokers'. (Did you mean"),
    "check --gpus 1 train.py": (2, "Error: No such option '--gpus'."),
    "up job.toml -n 3": (2, "clusterkit up -f job.toml\nUsage:"),
    "config job.toml --workers 3": (0, "clusterkit: job.toml is a job file: clusterkit config -f job.toml\n"),
    "config -- job.toml": (0, "clusterkit: job.toml is a job file: clusterkit config -f job.toml\n"),
    "config": (0, "clusterkit: No program is given, so job.toml is read: clusterkit config -f job.toml\n"),
    "config -f job.toml": (0, ""),
    "config --file=": (2, "clusterkit: -f is empty."),
    "config --keras 3 python -u train.py": (0, "train.py"),
    "nosuch": (2, "Error: No such command 'nosuch'.\n"),
}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("line", TYPED)
def test_what_is_meant(line: str) -> None:
    """It is done, or said in a sentence that has the right words."""
    code, text = TYPED[line]
    result = call(line)
    assert result.exit_code == code, result.output
    assert text in result.stderr
    assert bool(text) == bool(result.stderr)


@pytest.mark.usefixtures("place")
def test_flags_override_a_job_file_that_stands_for_the_program() -> None:
    """Before it and after it."""
    for line in ("config --workers 3 job.toml", "config job.toml --workers 3", "config --workers 3"):
        assert "workers = 3\n" in call(line).stdout


@pytest.mark.usefixtures("place")
def test_two_dashes_before_the_arguments_of_a_program_are_left_out() -> None:
    """Other launchers ask for them; the program takes them for an argument."""
    assert 'args = ["--steps", "3"]\n' in call("config train.py -- --steps 3").stdout
    assert 'args = ["--steps", "--", "3"]\n' in call("config train.py --steps -- 3").stdout


def test_other_names_are_no_names_here() -> None:
    """Each leads to a command."""
    assert not OTHER_NAMES.keys() & set(COMMANDS)
    assert set(OTHER_NAMES.values()) <= set(COMMANDS)


@pytest.mark.parametrize("word", ["prun", "rune", "purne", "reep", "rn", "r"])
def test_nothing_that_removes_is_suggested(word: str) -> None:
    """Whoever mistypes `run` does not want to lose runs."""
    told = call(word).stderr
    assert "No such command" in told
    assert not [name for name in ("prune", "'rm'", "reap") if name in told]


WORDS = ["python", "-m", "-u", "-np", "-f", "job.toml", "--", "train.py", "--help", "all", "--num_workers=2", "-", "\0"]


@given(st.sampled_from(["check", "config"]), st.lists(st.text(max_size=8) | st.sampled_from(WORDS)))
def test_any_words_are_taken_or_refused_with_a_sentence(name: str, words: list[str]) -> None:
    """Whatever stands in the place of options and programs."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    said, problems = "nothing", list[str]()
    try:
        with command.make_context(name, list(words)) as context:
            found = without_interpreter(options_given(context.params))
        problems = with_program(describe(found).job)[1]
    except click.UsageError as error:
        said = error.format_message()
    except click.exceptions.Exit as end:  # of --help
        said = f"{end.exit_code}"
    assert said
    assert all(problems)


@pytest.mark.process
@pytest.mark.slow
def test_a_terminal_is_asked_whether_the_job_file_is_meant(home: Path, place: Path) -> None:
    """The answer no is as if there was none."""
    for answer, code in (b"n\n", 2), (b"\n", 0):
        with on_terminal(home, "config", cwd=place) as config:
            config.read_until(lambda text: "No program is given. Read job.toml? [Y/n]" in text)
            config.press(answer)
            text = config.finish()
        assert config.process.returncode == code
        assert ("Name a file, a module with -m" in text) == bool(code)
