"""Options written as flags are read by `up` as the same options."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from clusterkit.cli.commands.up import command as up
from clusterkit.cli.options import given as gathered_from
from clusterkit.job.options import OPTIONS, JobOptions, OptionEntry, OptionKind, job_flags

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES: dict[OptionKind, Any] = {
    OptionKind.SWITCH: st.booleans(),
    OptionKind.REQUEST: st.sampled_from(["yes", "no", "20", "required", "required:20"]),
    OptionKind.NUMBER: st.integers(-5, 2**64),
    OptionKind.DURATION: st.integers(0, 10**6).map(float) | st.sampled_from([0.25, 1.5, 1e-3]),
    OptionKind.TEXT: texts,
    OptionKind.PATH: texts,
    OptionKind.TEXTS: st.lists(texts, min_size=1, max_size=4),
    OptionKind.VARIABLES: st.dictionaries(
        texts.filter(lambda name: name and "=" not in name), texts, min_size=1, max_size=3
    ),
}


def value_of(entry: OptionEntry) -> Any:
    """Any value of an option."""
    return st.sampled_from(entry.choices) if entry.choices else VALUES[entry.kind]


EVERY = {name: value_of(entry) for name, entry in OPTIONS.items()}
programs = st.fixed_dictionaries({"program": texts.filter(bool), "args": st.lists(texts, max_size=4)})
modules = st.fixed_dictionaries({"module": texts, "args": st.lists(texts, max_size=4)})
others = st.fixed_dictionaries({}, optional={name: value for name, value in EVERY.items() if name != "module"})


@given(others, programs | modules)
def test_every_option_comes_back(options: dict[str, Any], program: dict[str, Any]) -> None:
    """Whatever its value is, and whatever the program and its arguments look like."""
    job = {**options, **program}
    context = up.make_context("up", job_flags(cast(JobOptions, job)))
    with context:
        found = gathered_from(context.params)
    assert found.problems == []
    plain: dict[str, Any] = {name: list(v) if isinstance(v, tuple) else v for name, v in found.options.items()}
    assert plain == job
