"""Keywords as options, and what is said of wrong ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

import click
import pytest

from clusterkit.api.options import RUNNER, check_names, gathered, name_of
from clusterkit.cli.commands.up import command
from clusterkit.cli.options import given
from clusterkit.job.options import (
    OPTIONS,
    GivenOptions,
    JobOptions,
    OptionKind,
    Options,
    env_flags,
    missing_in_shell,
    pasteable_env_flags,
)
from clusterkit.words.model import Program, ProgramKind


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, {}),
        ({"workers": 2, "ps": "1"}, {"workers": 2, "ps": 1}),
        ({"chief": True, "evaluator": False}, {"chief": True, "evaluator": False}),
        ({"chief": 1, "evaluator": 0}, {"chief": True, "evaluator": False}),
        ({"grace_period": 2.5, "timeout": "1m"}, {"grace_period": 2.5, "timeout": 60.0}),
        ({"cwd": Path("/tmp"), "resume": None, "fault": []}, {"cwd": "/tmp"}),
        ({"checkpoint_dir": "-odd"}, {"checkpoint_dir": "-odd"}),
        ({"keras": "2", "preload": ["a", Path("b")]}, {"keras": 2, "preload": ("a", "b")}),
        ({"env": {"A": 1, "B": "x=y", "é": "\udcff"}}, {"env": {"A": "1", "B": "x=y", "é": "\udcff"}}),
    ],
)
def test_a_keyword_is_the_option_of_its_name(options: dict[str, Any], found: dict[str, Any]) -> None:
    """None is nothing, and text is what it would be on the command line."""
    job = gathered("train.py", ["--steps", 5, Path("data")], cast(Options, options))
    assert job == GivenOptions(cast(JobOptions, {**found, "program": "train.py", "args": ["--steps", "5", "data"]}), [])


def test_a_command_to_type_has_no_secrets() -> None:
    """They come from the environment of whoever types it."""
    env = {"OMP_NUM_THREADS": "1", "LEVEL": "3", "TF_HOME": "s3://me:hush@host"}
    assert env_flags(env, False) == ["--env=OMP_NUM_THREADS=1", "--env=LEVEL", "--env=TF_HOME"]
    assert env_flags(env, True) == ["--env=OMP_NUM_THREADS=1", "--env=LEVEL=3", "--env=TF_HOME"]


@pytest.mark.parametrize(
    ("env", "shell", "flag"),
    [
        ({"OMP_NUM_THREADS": "1"}, {}, "--env=OMP_NUM_THREADS=1"),
        ({"MODE": "fast and loose"}, {}, "--env=MODE=fast and loose"),
        ({"MODE": "fast"}, {"MODE": "slow"}, "--env=MODE=fast"),
        ({"MODE": "fast"}, {"MODE": "fast"}, "--env=MODE"),  # passed on, so the shell has it
        ({"API_KEY": "hush"}, {}, "--env=API_KEY"),
        ({"DB_PW": "hush"}, {}, "--env=DB_PW"),
        ({"AWS_CREDS": "hush"}, {}, "--env=AWS_CREDS"),
        ({"STORE": "s3://me:hush@host"}, {}, "--env=STORE"),
    ],
)
def test_a_command_to_paste_has_the_values_that_were_typed(
    env: dict[str, str], shell: dict[str, str], flag: str
) -> None:
    """Unless the shell has them, or they look like secrets: then they are named as missing."""
    assert pasteable_env_flags(env, False, shell) == [flag]
    (name,) = env
    missing = flag == f"--env={name}" and name not in shell
    assert missing_in_shell(env, False, shell) == ([name] if missing else [])


def test_every_keyword_is_a_flag_of_up() -> None:
    """The list of options and the command line do not drift apart."""
    flags = {flag for parameter in command.params if isinstance(parameter, click.Option) for flag in parameter.opts}
    assert {f"--{name.replace('_', '-')}" for name in OPTIONS} <= flags


def test_every_flag_of_a_job_is_a_keyword() -> None:
    """What is about the console, and about whose child the run is, is left out."""
    others = {
        *("only", "all_output", "log_level", "quiet", "color", "detach", "no_wait"),
        "continue",
    }
    options = [option for option in command.params if isinstance(option, click.Option)]
    names = {option.opts[-1].lstrip("-").replace("-", "_") for option in options}
    assert names - others == set(OPTIONS)


def test_an_unknown_keyword_is_a_type_error() -> None:
    """As for any function, with the name that was meant."""
    with pytest.raises(TypeError, match=r"no option 'wrkers'. Did you mean workers\?"):
        check_names({"wrkers": 2})
    with pytest.raises(TypeError, match=r"no option 'worker'. It is called workers here\."):
        check_names({"worker": 2})


@pytest.mark.parametrize(
    ("program", "args", "options", "problem"),
    [
        ("train.py", [], {"module": "train"}, "not both"),
        (None, ["--steps"], {}, "no program"),
        ("train.py", [], {"chief": 2}, "chief=2"),
        ("train.py", [], {"env": ["A=1"]}, "has to be a mapping"),
        ("train.py", [], {"env": {"A=B": 1}}, "'A=B' can't be the name"),
        ("train.py", [], {"preload": "json"}, "has to be a list"),
        ("train.py", [], {"fault": 7}, "fault=7: it has to be a list"),
        ("train.py", [], {"ps": "two"}, "--ps: 'two' is not a valid integer."),
        ("train.py", [], {"ps": True}, "--ps: 'True' is not a valid integer."),
        ("train.py", [], {"timeout": "soon"}, "--timeout: "),
        ("train.py", [], {"start": "hot"}, "--start: 'hot' is not one of 'auto', 'warm', 'cold'."),
        ("train.py", ["a\0b"], {}, "NUL"),
        ("train.py", [], {"cwd": "\ud800"}, "half a character"),
    ],
)
def test_what_no_option_can_be_is_a_problem_of_the_job(
    program: str | None, args: list[str], options: dict[str, Any], problem: str
) -> None:
    """Noted beside the rest, so that it is told together with what the preparation finds."""
    job = gathered(program, args, cast(Options, {**options, "workers": -1}), ["known before"])
    assert len(job.problems) == 2
    assert job.problems[0] == "known before"
    assert problem in job.problems[1]
    assert job.options["workers"] == -1
    assert "\0" not in str(job.options)


KINDS: dict[OptionKind, str] = {
    OptionKind.NUMBER: "many",
    OptionKind.DURATION: "soon",
    OptionKind.CHOICE: "none of them",
}


@pytest.mark.parametrize("name", [name for name, entry in OPTIONS.items() if entry.kind in KINDS])
def test_a_wrong_keyword_is_described_as_a_wrong_flag(name: str) -> None:
    """Word for word, for every option that is read from text."""
    value = KINDS[OPTIONS[name].kind]
    with command.make_context("up", [f"{OPTIONS[name].flag}={value}"]) as context:
        flag = given(context.params)
    keyword = gathered(None, (), cast(Options, {name: value}))
    assert (keyword.problems, keyword.wrong) == (flag.problems, flag.wrong)


class Trainer:
    """An object that can be called."""

    def __call__(self) -> None: ...

    def fit(self) -> None: ...


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (Trainer().fit, "Trainer.fit"),
        (Trainer(), "Trainer"),
        (partial(Trainer().fit), "Trainer.fit"),
        (lambda: None, "lambda"),
        (print, "print"),
    ],
)
def test_lists_show_the_name_of_a_function(function: Any, name: str) -> None:
    """It is that of the file that has the function, and so the program's, wherever runs are listed."""
    assert name_of(function) == name
    assert str(Program(ProgramKind.SCRIPT, RUNNER, (f"/tmp/clusterkit-x/{name}.pkl",))) == f"{name}()"


def test_other_programs_keep_theirs() -> None:
    """Also a file of that name, and without a function."""
    assert str(Program(ProgramKind.SCRIPT, "task/call.py", ("a.pkl",))) == "task/call.py"
    assert str(Program(ProgramKind.SCRIPT, RUNNER)) == RUNNER
