"""The job file: what it gives, and how it says what is wrong with it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from clusterkit.job.jobfile import KEYS, read_job_file
from clusterkit.job.options import GivenOptions, JobOptions
from clusterkit.words.errors import BadJob
from clusterkit.words.job import RestartPolicy, Setup
from clusterkit.words.model import ProgramKind, TaskType
from tests.histories import build_job

WHOLE = """
program = "train.py"
args = ["--epochs", 3]
workers = 2
ps = 1
evaluator = true
cwd = "work"
restart = "always"
restart-budget = 5
grace-period = "1m30s"
timeout = 0.5
checkpoint-dir = "/data/ckpt"

[env]
LEVEL = 3
NAME = "x"

[task.worker]
env = { A = "1" }
cwd = "../elsewhere"
args = ["-v"]
"""


def problems(text: str) -> list[str]:
    """What is wrong with a file called job.toml."""
    try:
        return list(read_job_file(text, "job.toml").problems)
    except BadJob as error:
        return list(error.problems)


def test_a_whole_file_becomes_options() -> None:
    """Under the flags' names with underscores; paths are relative to the file."""
    worker = {"env": {"A": "1"}, "cwd": "jobs/../elsewhere", "args": ["-v"]}
    assert read_job_file(WHOLE, "jobs/job.toml").options == {
        "program": "jobs/train.py",
        "args": ["--epochs", "3"],
        "workers": 2,
        "ps": 1,
        "evaluator": True,
        "cwd": "jobs/work",
        "restart": RestartPolicy.ALWAYS,
        "restart_budget": 5,
        "grace_period": 90.0,
        "timeout": 0.5,
        "checkpoint_dir": "/data/ckpt",
        "env": {"LEVEL": "3", "NAME": "x"},
        "task": {TaskType.WORKER: worker},
    }


def test_a_file_and_the_rules_make_a_job() -> None:
    """What the file gives is what the rules take."""
    job = build_job(read_job_file(WHOLE, "/jobs/job.toml").options, ProgramKind.SCRIPT)
    assert " ".join(map(str, job.tasks)) == "chief:0 worker:0 worker:1 ps:0 evaluator:0"
    assert job.program.target == "/jobs/train.py"
    assert job.setups[TaskType.WORKER] == Setup({"A": "1"}, "/jobs/../elsewhere", ("-v",))


def test_an_empty_file_gives_nothing() -> None:
    """Every key is optional."""
    assert read_job_file("", "job.toml") == GivenOptions({}, [])


@pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("false", False), ("0", False)])
def test_there_is_one_chief_or_none(text: str, value: bool) -> None:
    """Both ways of saying so are taken."""
    assert read_job_file(f"chief = {text}", "job.toml").options == {"chief": value}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("workrs = 2", "there is no key workrs. Did you mean workers?"),
        ("grace_period = 2", "there is no key grace_period. Did you mean grace-period?"),
        ("[task.worker]\nagrs = []", "there is no key task.worker.agrs. Did you mean args?"),
        ("[task.wrker]\nargs = []", "task.wrker is not a task type. The types are chief, worker, ps, evaluator."),
        ('workers = "2"', "workers: input should be a valid integer."),
        ("workers = 1.5", "workers: input should be a valid integer."),
        ("workers = true", "workers: input should be a valid integer."),
        ("workers = -1", "workers: input should be greater than or equal to 0."),
        ("restart-budget = -1", "restart-budget: input should be greater than or equal to 0."),
        ("chief = 2", "chief: it has to be true, false, 0 or 1."),
        ('evaluator = "yes"', "evaluator: it has to be true, false, 0 or 1."),
        ("program = 3", "program: input should be a valid string."),
        ('args = "x"', "args: input should be a valid list."),
        ("args = [[1]]", "args.0: input should be a valid string."),
        ("[env]\nX = true", "env.X: input should be a valid string."),
        ("task = 3", "task: input should be a valid dictionary."),
        ('restart = "maybe"', "restart: input should be 'never', 'on-failure' or 'always'."),
        ("timeout = -1", "timeout: -1 is not a duration: it has to be 0 or more."),
        (
            'timeout = "soon"',
            "timeout: 'soon' is not a duration. Write 10s, 1m30s, 500ms or a number of seconds.",
        ),
    ],
)
def test_a_wrong_file_is_told_in_a_sentence(text: str, problem: str) -> None:
    """One for each mistake, with the file and the key."""
    assert problems(text) == [f"job.toml: {problem}"]


def test_a_key_like_no_other_is_told_all_the_keys() -> None:
    """Where no name is close, the list of them helps."""
    (problem,) = problems("zzz = 1")
    assert problem.startswith("job.toml: there is no key zzz. The keys are program, module, args, workers,")
    assert "restart-backoff-max" in problem
    assert problem.count(",") == len(KEYS) - 1


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("workers = ", "job.toml is not valid TOML: Invalid value (at end of document)"),
        ("a = 1\na = 2", "job.toml is not valid TOML: Cannot overwrite a value"),
        ("timeout = " + "9" * 5000, "job.toml is not valid TOML: Exceeds the limit"),
        ("a = " + "[" * 5000, "job.toml can't be read: its tables or arrays are nested too deeply."),
        ("timeout = " + "9" * 400, "job.toml: timeout: that duration is longer than any job."),
    ],
)
def test_a_file_that_is_no_toml_is_told_so(text: str, start: str) -> None:
    """Also where the parser itself stumbles."""
    (problem,) = problems(text)
    assert problem.startswith(start)


def test_all_problems_are_told_at_once() -> None:
    """Nobody has to try again to learn of the next one."""
    assert len(problems('workers = -1\nps = "x"\nzzz = 1\n[task.foo]\n[task.ps]\nenv = 3')) == 5


FILES = 10_000
NUMBERS = ["1", "-1", "1.5", "true", "nan", "inf", "1e999", "0x1F", "1979-05-27", "99999999999999999999"]
STRINGS = ['"x"', '"10s"', '"never"', '"\\u0000"', '"(\\\\d+)"', "'''"]
NESTED = ["[]", "[1, 'a']", "[[", "{}", "{worker = {}}", "{ps = {args = 1}}", "{A = '1'}", "{TF_CONFIG = ''}"]
TABLES = ["[env]", "[task.worker]", "[task.foo]", "[[task]]", "[", "# x", "[task]", '[task."[key]"]']


def text(draw: random.Random, longest: int) -> str:
    """A few characters, most of them of those that TOML gives a meaning."""
    signs = "[]{}=.,#'\"\\\n\t \0ax1-"
    return "".join(
        draw.choice(signs) if draw.random() < 0.7 else chr(draw.choice((draw.randrange(0xD800), 0x1F600)))
        for _ in range(draw.randrange(longest + 1))
    )


def line_from(draw: random.Random) -> str:
    """A key with a value, a table, or noise."""
    kind = draw.randrange(10)
    if kind > 6:
        return draw.choice(TABLES) if kind < 9 else text(draw, 10)
    key = draw.choice([*KEYS, "workrs", "a.b", "'x y'", ""]) if kind else text(draw, 4)
    return f"{key} = {draw.choice([*NUMBERS, *STRINGS, *NESTED, text(draw, 6)])}"


@pytest.mark.slow
def test_whatever_a_file_holds_it_is_options_or_problems() -> None:
    """No other error ever comes out, of the file's reader or of the rules after it; ten thousand files."""
    number = 1
    print(f"seed {number}")
    draw, read = random.Random(number), 0
    for _ in range(FILES):
        file = "\n".join(line_from(draw) for _ in range(draw.randrange(7)))
        try:
            read += check(file)
        except Exception as error:
            raise AssertionError(f"{file!r}: {error!r}") from error
    assert 1000 < read < FILES - 1000


def check(text: str) -> bool:
    """Whether the file can be read; fails where it is neither that nor refused as it should."""
    options: JobOptions = {}
    told: Sequence[str] = ()
    try:
        options, told, *_ = read_job_file(text, "jobs/job.toml")
    except BadJob as error:
        told = error.problems
    assert all(problem.startswith("jobs/job.toml") for problem in told)
    whole = not told and (bool(options) or not text)
    try:
        assert build_job(options, ProgramKind.SCRIPT).program.target
    except BadJob as error:
        told = [*told, *error.problems]
    assert all(problem.endswith((".", "?")) for problem in told)
    return whole


def test_what_is_right_in_a_file_counts_beside_what_is_wrong() -> None:
    """So that the problems of all of it can be told at once."""
    text = "workers = 'x'\nps = 1\nwrokers = 2\nrestart-budget = -1\n[env]\nA = '1'\n[task.worker]\ncwd = 3\n"
    options, told, wrong, _ = read_job_file(text, "job.toml")
    assert options == {"ps": 1, "env": {"A": "1"}}
    assert wrong == frozenset({"workers", "wrokers", "restart_budget", "task"})
    assert len(told) == 4
