"""Batch scripts: what they ask for, and that every word of a command survives them."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from clusterkit.engines.slurm.script import TAKEN, BatchRequest, problems, quoted, script_of, time_of

GOLDEN = Path(__file__).parent / "golden"
PLAIN = BatchRequest("quiet-otter-7f3a", 3, "/shared/job", "/shared/runs/quiet-otter-7f3a/slurm.log")
FULL = replace(
    PLAIN,
    time=7200,
    partition="gpu",
    cpus=8,
    gpus=2,
    arguments=("--account=lab", "--constraint=a100&nvlink", "--comment=it is mine"),
    environment={"CLUSTERKIT_HOME": "/shared/state of things"},
)
COMMAND = ("/opt/venv/bin/clusterkit", "up", "--engine", "slurm", "--workers", "2", "train.py", "it's", "$HOME")
NASTY = [*"'\"\\$`!# \t\n\r;&|*~é\udce9a-=", "\r\n"]
SHOW = "import json, sys; json.dump(sys.argv[1:], sys.stdout)"


@pytest.mark.parametrize(("name", "allocation"), [("plain", PLAIN), ("full", FULL)])
def test_the_script_is_as_it_was(name: str, allocation: BatchRequest) -> None:
    """After a change that is meant, delete the files: the test writes them again, and fails once."""
    path = GOLDEN / f"{name}.sh"
    text = script_of(allocation, COMMAND)
    assert problems(allocation) == []
    if not path.exists():
        path.write_text(text)
        pytest.fail(f"{path} was not there. It is written now: read it.")
    assert text == path.read_text()


@pytest.mark.slow
def test_every_word_of_a_command_survives() -> None:
    """As the shell understands it; and no text in it can be taken for a directive, or for a file of Windows'."""
    seed = random.randrange(2**32)
    print(f"the seed is {seed}")
    chance = random.Random(seed)
    for _ in range(60):
        words = ["".join(chance.choices(NASTY, k=chance.randrange(8))) for _ in range(5)]
        words.append("\n#SBATCH --wrap=true\r\n")
        script = os.fsencode(script_of(PLAIN, [sys.executable, "-S", "-c", SHOW, *words]))
        assert subprocess.run(["bash", "-n"], input=script, capture_output=True).stderr == b""
        ran = subprocess.run(["sh", "-s"], input=script, capture_output=True)
        assert json.loads(ran.stdout) == words, ran.stderr
        assert b"\r\n" not in script
        before = script.partition(b"\nexec ")[0]
        assert before.count(b"\n#SBATCH ") == script_of(PLAIN, []).count("\n#SBATCH ")


def test_sbatch_reads_every_word_as_it_is() -> None:
    """By the rules of its own, which are not a shell's (the function after its C code)."""
    chance = random.Random(seed := random.randrange(2**32))
    print(f"the seed is {seed}")
    for _ in range(2000):
        word = "--comment=" + "".join(chance.choices([n for n in NASTY if n.isprintable()], k=chance.randrange(12)))
        assert words_of(quoted(word)) == [word]


@pytest.mark.parametrize(
    ("allocation", "problem"),
    [
        (replace(PLAIN, hosts=0), "--hosts 0: a job needs at least one host."),
        (replace(PLAIN, arguments=("gpu",)), "--sbatch-arg 'gpu': not an option of sbatch."),
        (replace(PLAIN, arguments=("",)), "--sbatch-arg '': not an option of sbatch."),
        (replace(PLAIN, arguments=("-C=gpu",)), "Write --name=value, or -Xvalue."),
        (replace(PLAIN, arguments=("--nodes=9",)), "clusterkit sets --nodes itself. Use --hosts."),
        (replace(PLAIN, arguments=("--node=9",)), "clusterkit sets --nodes itself. Use --hosts."),
        (replace(PLAIN, arguments=("-N9",)), "clusterkit sets -N itself. Use --hosts."),
        (replace(PLAIN, arguments=("--wrap=x",)), "clusterkit sets --wrap itself."),
        (replace(PLAIN, arguments=("--comment=a\nb",)), "it has control characters."),
        (replace(PLAIN, partition="a\nb"), "Slurm can't take the --partition 'a\\nb'"),
        (replace(PLAIN, output="/a\\b"), "it has a backslash."),
    ],
)
def test_what_slurm_or_clusterkit_can_not_take_is_a_problem(allocation: BatchRequest, problem: str) -> None:
    """It says which option, and what to write instead."""
    (found,) = problems(allocation)
    assert problem in found


def test_all_problems_are_found_at_once() -> None:
    """And none in what sites ask their users for."""
    assert len(problems(replace(PLAIN, hosts=0, arguments=("--array=1-3", "x")))) == 3
    usual = ("--account=x", "-Ax", "--qos=high", "--mem=10G", "--exclusive", "--no-requeue", "-Cgpu", "--mail-type=END")
    assert problems(replace(PLAIN, arguments=usual)) == []
    assert len(problems(replace(PLAIN, arguments=tuple(TAKEN)))) == len(TAKEN)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0-00:00:01"), (60, "0-00:01:00"), (7199.6, "0-02:00:00"), (90061, "1-01:01:01"), (8640000, "100-00:00:00")],
)
def test_a_time_limit_is_written_as_slurm_reads_it(seconds: float, text: str) -> None:
    """With days, so that no number of parts can be taken for others."""
    assert time_of(seconds) == text


def words_of(text: str) -> list[str]:
    """The words of a line, as `_get_argument` in Slurm's slurm_opt.c reads them."""
    words, word, quote, position = list[str](), "", "", 0
    text = re.sub(r"^\s+", "", text)
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 1
            word += text[position]
        elif char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote = char
        elif not quote and char == "#":
            break
        elif not quote and char.isspace():
            words, word = [*words, word], ""
        else:
            word += char
        position += 1
    return [*words, word]
