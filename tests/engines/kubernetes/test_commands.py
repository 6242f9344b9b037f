"""What the pods run: the words of the supervisor are the job, exactly, after Kubernetes has replaced its variables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.cli.commands.up import command as up
from clusterkit.cli.options import given as gathered_from
from clusterkit.engines.kubernetes.documents import documents, yaml_text
from clusterkit.engines.kubernetes.manifest import ManifestFlags, longest_name, name_problems
from clusterkit.job.jobfile import read_job_file
from clusterkit.job.options import GivenOptions, JobOptions, merged
from clusterkit.words.model import TaskType
from tests.engines.kubernetes.schemas import pod_specs
from tests.engines.kubernetes.shapes import PEM, PLAIN, manifest_of

_OPERATOR = re.compile(r"\$(?:\$|\(([^)]*)\))")
# Text that a process can take as an argument, full of what YAML, Kubernetes, shells and option parsers read into it.
pieces = st.sampled_from(
    ["$", "$$", "$(HOME)", "$(", ")", "${A}", "'", '"', "\\", "\n", "- a", "a: b", "#", "{", "--x"]
)
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
texts = st.lists(pieces | st.text(characters, max_size=4), max_size=4).map("".join)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0="), min_size=1).map(lambda n: f"X{n}")
variables = st.dictionaries(names | st.sampled_from(["API_TOKEN", "LEVEL"]), texts, min_size=1, max_size=3)
tables = st.dictionaries(
    st.sampled_from(TaskType),
    st.fixed_dictionaries({}, optional={"env": variables, "args": st.lists(texts, max_size=3)}),
    min_size=1,
)
options = st.fixed_dictionaries(
    {"program": texts.map(lambda text: str(PurePosixPath(f"x{text}"))), "workers": st.integers(1, 9)},
    optional={
        "args": st.lists(texts, min_size=1, max_size=4),
        "env": variables,
        "task": tables,
        "cwd": texts.map(lambda text: f"/{text}"),
        "grace_period": st.integers(0, 10**6).map(float),
        "evaluator": st.booleans(),
        "restart_budget": st.integers(0, 10**6),
        "fault": st.just(["kill worker:0 @ step=5"]),
        "keras": st.sampled_from([2, 3]),
        "progress_regex": st.just(r"step (\d+)\$"),
    },
)


def replaced(word: str, variables: Mapping[str, str]) -> str:
    """What Kubernetes makes of a word of a command: `$$` is a dollar, `$(NAME)` a variable, if it is one."""

    def value(match: re.Match[str]) -> str:
        return "$" if match.group() == "$$" else variables.get(match.group(1), match.group())

    return _OPERATOR.sub(value, word)


def container_of(written: Sequence[Any], component: str) -> Mapping[str, Any]:
    """The container of the supervisor's or the agents' pods, as Kubernetes reads it."""
    for document in written:
        for pod in pod_specs(document):
            if pod["containers"][0]["name"] == component:
                return cast(Mapping[str, Any], pod["containers"][0])
    raise AssertionError(f"no pod has a container {component}")


def read(words: list[str]) -> GivenOptions:
    """The job that `up` takes from its words."""
    context = up.make_context("up", words)
    with context:
        return gathered_from(context.params)


def written(job: Mapping[str, Any], flags: ManifestFlags = PLAIN) -> list[Any]:
    """The documents of a job after a way through YAML, which libyaml reads in a tenth of the time, if it is there."""
    manifest = manifest_of(cast(JobOptions, job), flags)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return list(yaml.load_all(yaml_text([], documents(manifest, PEM)), loader))


@pytest.mark.slow
@given(options)
def test_the_supervisor_gets_the_job_that_was_asked_for(job: dict[str, Any]) -> None:
    """Flags, variables, tables, the program and each of its arguments, whatever characters are in them."""
    found = written(job)
    container = container_of(found, "supervisor")
    own = {variable["name"]: variable["value"] for variable in container["env"]}
    words = [replaced(word, own) for word in [*container["command"], *container["args"]]]
    head = ["clusterkit", "up", "--engine", "agents", "--hosts", "N", "--listen", "[::]:7077"]
    assert [*words[:5], "N", *words[6:8]] == head
    assert words[8:13] == ["--agent-key", "/run/clusterkit/key/agents.pem", "--run-id", "train-1", "--continue"]
    texts = [source["job.toml"] for doc in found for source in (doc.get("stringData"), doc.get("data")) if source
             and "job.toml" in source]  # fmt: skip
    below = read_job_file(texts[0], "/etc/clusterkit/job.toml") if texts else GivenOptions({})
    assert words[13:15] == ["-f", "/etc/clusterkit/job.toml"] if texts else "-f" not in words[13:14]
    gathered = merged(below, read(words[15:] if texts else words[13:]))
    expected = {**job, "args": job.get("args", []), "task": {k: t for k, t in job.get("task", {}).items() if t}}
    actual = {"task": {}, **gathered.options}
    assert gathered.problems == []
    assert {name: list(v) if isinstance(v, tuple) else v for name, v in actual.items()} == expected


@pytest.mark.slow
@given(options)
def test_no_secret_is_on_a_command_line_or_outside_a_secret(job: dict[str, Any]) -> None:
    """The value of a variable that may be one is in a Secret alone."""
    env = {**job.get("env", {}), "LEVEL": "hush-hush"}
    for document in written({**job, "env": env, "show_env": False}):
        assert ("hush-hush" in str(document)) == (document["kind"] == "Secret" and "job.toml" in document["stringData"])


def test_the_agents_command_names_its_pod_and_the_supervisors() -> None:
    """Both are variables of the pod."""
    container = container_of(written({"program": "train.py"}), "agent")
    own = {"POD_NAME": "p", **{v["name"]: v["value"] for v in container["env"] if "value" in v}}
    assert [replaced(word, own) for word in [*container["command"], *container["args"]]] == [
        *("clusterkit", "agent", "--connect", "train-1-supervisor-0-0.train-1:7077"),
        *("--key", "/run/clusterkit/key/agents.pem", "--host", "p"),
    ]
    assert next(v for v in container["env"] if v["name"] == "POD_NAME")["valueFrom"]["fieldRef"] == {
        "fieldPath": "metadata.name"
    }


@given(st.text(), st.integers(1, 4096))
def test_a_name_is_taken_or_another_is_proposed(name: str, hosts: int) -> None:
    """The proposal is one that is taken."""
    for problem in name_problems(name, hosts):
        proposed = problem.rpartition("--run-id ")[2]
        assert [*name_problems(proposed, hosts)] == []
        assert len(proposed) <= longest_name(hosts)
