"""The table of options: each has one entry, which agrees with the job that it becomes."""

from __future__ import annotations

import enum
import typing

import pytest

from clusterkit.job.options import OPTIONS, GivenOptions, JobOptions, OptionKind, merged, options_of
from clusterkit.job.spec import describe
from clusterkit.words import wire
from clusterkit.words.job import JobSpec

# What becomes of options that are no field: the program, the counts, the faults, and what is not of the job itself.
ELSEWHERE = {"file", "module", "workers", "ps", "chief", "evaluator", "run_id", "fault"}
PLACED = [entry for entry in OPTIONS.values() if entry.name not in ELSEWHERE and not entry.engine]


def type_of(place: str) -> typing.Any:
    """The type of a field of JobSpec, such as `limits.grace`; without None."""
    kind: typing.Any = JobSpec
    for name in place.split("."):
        kind = typing.get_type_hints(kind)[name]
    optional = type(None) in typing.get_args(kind)
    return next(one for one in typing.get_args(kind) if one is not type(None)) if optional else kind


@pytest.mark.parametrize("entry", PLACED, ids=lambda entry: entry.name)
def test_an_option_has_its_place_in_the_job(entry: typing.Any) -> None:
    """A field of its type; a choice has the values of its enumeration, and no others."""
    kind = type_of(entry.about.field)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        assert entry.choices == tuple(one.value for one in kind)
    simple = {
        OptionKind.SWITCH: bool,
        OptionKind.REQUEST: str,
        OptionKind.NUMBER: int,
        OptionKind.DURATION: float,
        OptionKind.TEXT: str,
        OptionKind.PATH: str,
    }
    assert kind is simple.get(entry.kind, kind)


def test_the_other_options_have_no_field() -> None:
    """They are the program, the number of tasks, or not of the job; those of one engine are settings of its hosts."""
    assert {entry.name for entry in OPTIONS.values() if not (entry.about.field or entry.engine)} == ELSEWHERE
    options: JobOptions = {"program": "a.py", "engine": "slurm", "hosts": 2, "time": 60.0, "sbatch_arg": ("--qos=x",)}
    described = describe(GivenOptions(options))
    assert described.problems == []
    assert described.job.hosts.settings == {"time": 60.0, "sbatch_arg": ["--qos=x"]}
    assert wire.decode(JobSpec, wire.encode(described.job)) == described.job
    assert options_of(described.job) == {**options, "workers": 1, "sbatch_arg": ["--qos=x"]}


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("grace_period", "10s"), ("startup_timeout", "2m"), ("timeout", "off"), ("restart", "on-failure"),
        ("restart_budget", "3"), ("patches", "yes"), ("tensorboard", ""), ("seed", ""), ("workers",
        "1 if no task is requested"), ("python", "clusterkit's own"),
    ],
)  # fmt: skip
def test_the_help_shows_the_default_of_the_job(name: str, default: str) -> None:
    """As it is written on the command line, or in words where it is not a value."""
    assert OPTIONS[name].default == default


def test_flags_win_over_the_file() -> None:
    """Environments merge; a program given anew has its own arguments; a right flag makes up for a wrong key."""
    file = GivenOptions(
        {"program": "a.py", "args": ["1"], "ps": 1, "env": {"A": "1", "B": "1"}},
        ["workers: no"],
        frozenset({"workers"}),
    )
    flags = GivenOptions({"module": "b", "workers": 2, "env": {"B": "2"}}, ["--seed: no"], frozenset({"seed"}))
    options: JobOptions = {"module": "b", "workers": 2, "ps": 1, "env": {"A": "1", "B": "2"}}
    assert merged(file, flags) == GivenOptions(options, ["--seed: no", "workers: no"], frozenset({"seed"}))
