"""Options written as a job file are read again as the same options, whatever their values are."""

from __future__ import annotations

import tomllib
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.job.jobfile import job_text, quoted, read_job_file
from clusterkit.job.options import OPTIONS, TASK_OPTIONS, JobOptions, OptionEntry, OptionKind
from clusterkit.text.printable import printable_lines
from clusterkit.words.errors import BadJob
from clusterkit.words.model import TaskType
from clusterkit.words.secrets import HIDDEN, masked

texts = st.text(st.characters(exclude_categories=["Cs"]))
VALUES: dict[OptionKind, Any] = {
    OptionKind.SWITCH: st.booleans(),
    OptionKind.REQUEST: st.sampled_from(["yes", "no", "20", "required", "required:20"]),
    OptionKind.NUMBER: st.integers(1, 2**64 - 1),
    OptionKind.DURATION: st.floats(0, 1e9) | st.integers(0, 10**6).map(float),
    OptionKind.TEXT: texts,
    OptionKind.PATH: texts.map(
        lambda text: str(PurePosixPath(f"/{text}"))
    ),  # `config` prints absolute ones, normalized
    OptionKind.TEXTS: st.lists(texts, max_size=4),
    OptionKind.VARIABLES: st.dictionaries(texts, texts, min_size=1, max_size=3),
}


def value_of(entry: OptionEntry) -> Any:
    """Any value of an option."""
    return st.sampled_from(entry.choices) if entry.choices else VALUES[entry.kind]


IN_FILE = {name: value_of(entry) for name, entry in OPTIONS.items() if entry.about.in_file}
OF_TASK = {name: value_of(entry) for name, entry in TASK_OPTIONS.items()}
tables = st.dictionaries(st.sampled_from(TaskType), st.fixed_dictionaries({}, optional=OF_TASK), min_size=1)
options = st.fixed_dictionaries(
    {}, optional={**IN_FILE, "program": VALUES[OptionKind.PATH], "args": VALUES[OptionKind.TEXTS], "task": tables}
)


@given(options)
def test_what_is_written_is_read_again(written: dict[str, Any]) -> None:
    """Every option, with every value that its kind can have; empty tables are no tables."""
    text = job_text(JobOptions(**written), secrets=True)  # type: ignore[typeddict-item]
    read = read_job_file(text, "/job.toml")
    expected = dict(written)
    expected["task"] = {kind: table for kind, table in written.get("task", {}).items() if table}
    found: dict[str, Any] = {"task": {}, **read.options}
    assert (read.problems, found) == ([], expected)


@given(options)
def test_it_can_be_printed(written: dict[str, Any]) -> None:
    """What is printed to a terminal is what was written."""
    text = job_text(JobOptions(**written), secrets=True)  # type: ignore[typeddict-item]
    assert printable_lines(text) == text


@given(
    st.dictionaries(
        st.sampled_from(["OMP_NUM_THREADS", "TF_HOME", "LEVEL", "a\nKEY"]), texts.map("s3://a:b@{}".format) | texts
    ),
    st.booleans(),
)
def test_what_is_hidden_is_a_comment(env: dict[str, str], show: bool) -> None:
    """It is no part of the job then."""
    text = job_text({"env": env, "show_env": show})
    shown = {name: value for name, value in masked(env, show).items() if HIDDEN not in value}
    assert tomllib.loads(text).get("env", {}) == shown
    assert text.count("# The value is hidden") == len(env) - len(shown)


def test_credentials_in_other_texts_are_hidden_and_a_comment_says_so() -> None:
    """Unless all is to be shown."""
    options: JobOptions = {"program": "train.py", "args": ["--db", "postgres://me:hush@host/db"], "on_end": "true"}
    assert 'args = ["--db", "postgres://***@host/db"]' in job_text(options)
    assert job_text(options).count("# Credentials are hidden") == 1
    assert "hush" in job_text(options, secrets=True)


@given(texts)
def test_a_quoted_text_is_toml(text: str) -> None:
    """Also of control characters, line ends that only Unicode knows, and characters beyond 16 bits."""
    assert tomllib.loads(f"a = {quoted(text)}") == {"a": text}


def test_what_toml_can_not_hold_is_named() -> None:
    """All of it."""
    with pytest.raises(BadJob) as raised:
        job_text({"program": "/\udcff", "args": ["\udc80"], "env": {"TF_A": "\udcfe"}, "workers": 2})
    assert [problem.split()[0] for problem in raised.value.problems] == ["program", "args", "TF_A"]
