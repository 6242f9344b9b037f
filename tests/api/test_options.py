"""Keywords as flags, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import click
import pytest

from clusterkit.api.options import check_names, env_flags, invocation
from clusterkit.cli.up import command
from clusterkit.job.handed import Handed, hand, take
from clusterkit.job.options import OPTIONS, Options
from clusterkit.words.errors import BadJob


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, []),
        ({"workers": 2, "ps": 1}, ["--workers=2", "--ps=1"]),
        ({"chief": True, "evaluator": False}, ["--chief", "--no-evaluator"]),
        ({"chief": 1, "evaluator": 0}, ["--chief", "--no-evaluator"]),
        ({"grace_period": 2.5, "timeout": "1m"}, ["--grace-period=2.5", "--timeout=1m"]),
        ({"cwd": Path("/tmp"), "resume": None}, ["--cwd=/tmp"]),
        ({"checkpoint_dir": "-odd"}, ["--checkpoint-dir=-odd"]),
    ],
)
def test_a_keyword_is_the_flag_of_its_name(options: dict[str, Any], flags: list[str]) -> None:
    """Underscores are dashes, None is nothing, and a value never looks like another flag."""
    assert invocation("train.py", ["--steps", 5, Path("data")], cast(Options, options)) == (
        [*flags, "--", "train.py", "--steps", "5", "data"],
        Handed({}, []),
    )


def test_the_environment_is_on_no_command_line() -> None:
    """Every user can read those. It is handed over through a descriptor that only the child has."""
    given = invocation("train.py", [], {"env": {"A": 1, "B": "x=y", "DB_PASSWORD": "hush", "é": "\udcff"}})
    assert given.words == ["--", "train.py"]
    assert given.handed.env == {"A": "1", "B": "x=y", "DB_PASSWORD": "hush", "é": "\udcff"}
    descriptor = hand(given.handed)
    assert take(descriptor) == given.handed
    with pytest.raises(BadJob, match=f"--handed {descriptor}"):
        take(descriptor)


def test_a_command_to_type_has_no_secrets() -> None:
    """They come from the environment of whoever types it."""
    env = {"OMP_NUM_THREADS": "1", "LEVEL": "3", "TF_HOME": "s3://me:hush@host"}
    assert env_flags(env, False) == ["--env=OMP_NUM_THREADS=1", "--env=LEVEL", "--env=TF_HOME"]
    assert env_flags(env, True) == ["--env=OMP_NUM_THREADS=1", "--env=LEVEL=3", "--env=TF_HOME"]


def test_every_keyword_is_a_flag_of_up() -> None:
    """The list of options and the command line do not drift apart."""
    flags = {flag for parameter in command.params if isinstance(parameter, click.Option) for flag in parameter.opts}
    assert {f"--{name.replace('_', '-')}" for name in OPTIONS} <= flags


def test_every_flag_of_a_job_is_a_keyword() -> None:
    """What is about the console, and about whose child the run is, is left out."""
    others = {
        *("only", "all_output", "log_level", "quiet", "color", "lifeline", "session", "handed", "detach", "no_wait"),
        "continue",
    }
    options = [option for option in command.params if isinstance(option, click.Option)]
    names = {option.opts[-1].lstrip("-").replace("-", "_") for option in options}
    assert names - others == set(OPTIONS)


def test_an_unknown_keyword_is_a_type_error() -> None:
    """As for any function, with the name that was meant."""
    with pytest.raises(TypeError, match=r"no option 'worker'. Did you mean workers\?"):
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
        ("train.py", ["a\0b"], {}, "NUL"),
        ("train.py", [], {"cwd": "\ud800"}, "half a character"),
    ],
)
def test_what_can_not_be_a_flag_is_a_problem_of_the_job(
    program: str | None, args: list[str], options: dict[str, Any], problem: str
) -> None:
    """Handed over beside the rest, so that `up` tells it together with what it finds itself."""
    words, handed = invocation(program, args, cast(Options, {**options, "workers": -1}), ["known before"])
    assert len(handed.problems) == 2
    assert handed.problems[0] == "known before"
    assert problem in handed.problems[1]
    assert "--workers=-1" in words
    assert "\0" not in "".join(words)
