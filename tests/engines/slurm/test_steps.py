"""The command lines of srun."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from clusterkit.engines.slurm.script import agent_command, agents_step, inside_step

AGENT = agent_command(["/opt/venv/bin/clusterkit"], "10.0.0.5:4242", "/shared/runs/a run/agents.pem")


def argv_of(step: Sequence[str]) -> list[str]:
    """What srun runs: the words after its own options."""
    return list(step[1:])[next(n for n, word in enumerate(step[1:]) if not word.startswith("-")) :]


def test_one_agent_starts_on_each_host() -> None:
    """On these hosts and no others, whatever else the job has; one that is lost ends no other."""
    step = agents_step(["n1", "n3"], 8, "/shared/runs/a%b/agents", AGENT)
    assert {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--nodelist=n1,n3", "--cpus-per-task=8"} <= set(step)
    assert {"--overlap", "--no-kill", "--kill-on-bad-exit=0", "--wait=0"} <= set(step)
    assert "--output=/shared/runs/a%%b/agents/%N.log" in step


def test_an_agent_is_told_the_name_of_its_host() -> None:
    """By Slurm, there: the command line is the same everywhere, and no word of it changes."""
    words = [*agent_command(["echo", "it's"], "10.0.0.5:4242", "/a b/$HOME"), "*", ""]
    step = agents_step(["n1"], 1, "/log", words)
    ran = subprocess.run(argv_of(step), capture_output=True, text=True, env={"SLURMD_NODENAME": "n1"})
    assert ran.stdout == "it's agent --connect 10.0.0.5:4242 --key /a b/$HOME *  --host n1\n"


def test_a_command_runs_beside_the_supervisor() -> None:
    """On its host, in the job, without waiting for CPUs that are taken."""
    step = inside_step(77, "n1", ["clusterkit", "down", "a run"])
    assert {"--jobid=77", "--overlap", "--nodes=1", "--nodelist=n1"} <= set(step)
    assert argv_of(step) == ["clusterkit", "down", "a run"]


def test_the_key_itself_is_in_no_command_line() -> None:
    """Only the name of its file: other users of a host see command lines."""
    assert AGENT[-2:] == ["--key", "/shared/runs/a run/agents.pem"]
