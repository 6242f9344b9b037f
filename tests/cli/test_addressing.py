"""Which run and which tasks the words of a command name."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.cli import cli
from clusterkit.cli.addressing import ALL, OnRun, OnTasks, as_task_name
from clusterkit.store.store import RUN_ID
from clusterkit.words.model import Task, TaskType


def parsed(name: str, *words: str, **environment: str) -> tuple[str | None, tuple[str, ...]]:
    """The run and the tasks, or faults, that a command gets. Raises click.UsageError."""
    command = cli.get_command(click.Context(cli), name)
    assert isinstance(command, OnRun)
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in environment.items():
            patch.setenv(variable, value)
        context = command.make_context(name, list(words), auto_envvar_prefix=f"CLUSTERKIT_{name.upper()}")
    assert "words" not in context.params
    return context.params["run"], context.params.get("tasks", context.params.get("texts", ()))


@pytest.mark.parametrize(
    ("words", "run", "tasks"),
    [
        ("logs", None, ()),
        ("logs worker:1", None, ("worker:1",)),
        ("logs worker:01 ps all", None, ("worker:1", "ps", "all")),
        ("logs 2026", "2026", ()),
        ("logs 2026 worker:1", "2026", ("worker:1",)),
        ("logs --run 2026 worker:1", "2026", ("worker:1",)),
        ("logs worker:1 --run 2026", "2026", ("worker:1",)),
        ("logs --run worker worker", "worker", ("worker",)),
        ("logs worker", None, ("worker",)),
        ("logs work", "work", ()),
        ("logs workers", "workers", ()),
        ("kill evaluator", None, ("evaluator",)),
        ("show worker", "worker", ()),
        ("show --run all", "all", ()),
        ("fault kill", None, ("kill",)),
        ("fault work disk-full", "work", ("disk-full",)),
    ],
)
def test_words(words: str, run: str | None, tasks: tuple[str, ...]) -> None:
    """What can be a task is one; any other first word is the run."""
    assert parsed(*words.split()) == (run, tasks)


def test_a_run_that_is_typed_wins_over_the_environment() -> None:
    """As every option that is typed does."""
    assert parsed("logs", "worker:1", CLUSTERKIT_LOGS_RUN="mine") == ("mine", ("worker:1",))
    assert parsed("logs", "other", "worker:1", CLUSTERKIT_LOGS_RUN="mine") == ("other", ("worker:1",))
    assert parsed("logs", "--run", "other", CLUSTERKIT_LOGS_RUN="mine") == ("other", ())


@given(
    st.sampled_from(["logs", "kill", "show", "fault", "attach"]),
    st.lists(st.text(max_size=8) | st.sampled_from(["worker:1", "ps", "all", "mine", "--run", "--", "-n", "kill"])),
)
def test_any_words_are_taken_or_refused_with_a_sentence(name: str, words: list[str]) -> None:
    """Whatever they are."""
    said = "nothing"
    run, tasks = None, tuple[str, ...]()
    try:
        run, tasks = parsed(name, *words)
    except click.UsageError as error:
        said = error.format_message()
    assert said
    assert run is None or run in words
    assert len(tasks) <= len(words)


@given(st.text() | st.sampled_from(["worker:", ":1", "worker:-1", "worker:1:1", "worker:" + "9" * 5000]))
def test_no_word_with_a_colon_is_a_run(word: str) -> None:
    """So a task of a job can't be taken for a run, nor the other way round but for the names of types."""
    named = as_task_name(word)
    if named is None:
        return
    assert named in {*TaskType, ALL} or str(Task.parse(named)) == named
    assert named in {*TaskType, ALL} or not RUN_ID.fullmatch(word)


def test_commands_on_tasks_are_those_that_take_some() -> None:
    """One grammar for all."""
    found = {name: cli.get_command(click.Context(cli), name) for name in cli.list_commands(click.Context(cli))}
    assert [name for name, command in found.items() if isinstance(command, OnTasks)] == [
        *("attach", "logs", "events", "stacks", "debug", "profile", "kill", "pause", "unpause", "restart")
    ]
    assert [
        name for name, command in found.items() if isinstance(command, OnRun) and not isinstance(command, OnTasks)
    ] == [*("wait", "down", "ps", "top", "show", "report", "dashboard", "tensorboard", "fault")]
