"""Writes the batch script of a run, and the command lines of srun."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

WARNING = 120  # seconds between Slurm's warning and the time limit; Slurm may send the warning 60 s early
_PLAIN = re.compile(r"[\w@%+=:,./-]")
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f]")
# sbatch options that users must not set, and clusterkit's options for the same purpose ("" if there is none).
TAKEN: Mapping[str, str] = {
    "--nodes": "--hosts",
    "-N": "--hosts",
    "--time": "--time",
    "-t": "--time",
    "--partition": "--partition",
    "-p": "--partition",
    "--job-name": "--run-id",
    "-J": "--run-id",
    "--chdir": "--cwd",
    "-D": "--cwd",
    **dict.fromkeys(("--ntasks", "-n", "--ntasks-per-node", "--array", "-a", "--wrap", "--signal", "--open-mode"), ""),
    **dict.fromkeys(("--output", "-o", "--error", "-e", "--input", "-i", "--no-kill", "-k", "--test-only"), ""),
    **dict.fromkeys(("--parsable", "--wait", "-W", "--help", "-h", "--usage", "--version", "-V"), ""),
}

_OPTION = re.compile(r'^#SBATCH "?--([a-z-]+)', re.MULTILINE)
# SBATCH_ variables that are not named after their option, and SBATCH_ variables for options that scripts never set.
_VARIABLES = {"time": ("TIMELIMIT",), "requeue": ("NO_REQUEUE",)}
_NEVER = ("ARRAY_INX", "ERROR", "INPUT")
# Options of srun that the site or the job may have set differently. They pass on the whole environment, disable MPI,
# share memory and CPUs with other steps of the job, and keep other agents running when one agent ends.
_COMMON = ("--overlap", "--export=ALL", "--mpi=none", "--mem=0")
_APART = ("--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--input=none", "--unbuffered", "--cpu-bind=none")
# All hosts get the same command line, so a shell on each host inserts the host's name from Slurm's variable.
_ON_HOST = ("sh", "-c", 'exec "$@" --host "$SLURMD_NODENAME"', "agent")


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """The resources and options of a run's batch job."""

    name: str
    hosts: int
    directory: str
    output: str  # the file for the supervisor's output
    time: float = 0.0  # seconds; 0 means Slurm's default, as does an empty partition
    partition: str = ""
    cpus: int = 0  # the number of CPUs on each host; `gpus` is also per host
    gpus: int = 0
    arguments: Sequence[str] = ()  # more sbatch options, each with its value in one word
    environment: Mapping[str, str] = field(default_factory=dict)


def problems(allocation: BatchRequest) -> list[str]:
    found = [f"--hosts {allocation.hosts}: a job needs at least one host."] if allocation.hosts < 1 else []
    for argument in allocation.arguments:
        found += _problems_of(argument)
    texts = {"run id": allocation.name, "directory": allocation.directory, "log file": allocation.output}
    for what, text in {**texts, "--partition": allocation.partition}.items():
        if _UNWRITABLE.search(text):
            found.append(f"Slurm can't take the {what} {text!r}: it has control characters.")
    if "\\" in allocation.output:
        found.append(f"Slurm can't take the log file {allocation.output!r}: it has a backslash.")
    return found


def script_of(allocation: BatchRequest, command: Sequence[str]) -> str:
    """Return the text of a batch script that executes the command. The request must be valid (see `problems`)."""
    lines = ["#!/bin/sh", *(f"#SBATCH {quoted(option)}" for option in _options(allocation))]
    lines += [f"export {name}={_shell(value)}" for name, value in sorted(allocation.environment.items())]
    return "\n".join((*lines, f"exec {' '.join(map(_shell, command))}", ""))


def overriding(script: str) -> set[str]:
    """Return the environment variables that would override options in the script: SBATCH_SIGNAL, …"""
    options = _OPTION.findall(script)
    names = {option.upper().replace("-", "_") for option in options}
    return {f"SBATCH_{name}" for name in names.union(_NEVER, *(_VARIABLES.get(option, ()) for option in options))}


def quoted(word: str) -> str:
    """Quote a word for an #SBATCH line. Unlike in a shell, `\\` escapes any character."""
    if all(map(_PLAIN.match, word)):
        return word
    escaped = word.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


def time_of(seconds: float) -> str:
    """Format a time limit as `1-02:03:04`. Slurm rounds the limit up to minutes."""
    minutes, rest = divmod(max(1, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{minutes:02}:{rest:02}"


def _options(allocation: BatchRequest) -> Iterator[str]:
    yield from (f"--job-name={allocation.name}", f"--nodes={allocation.hosts}", "--ntasks-per-node=1")
    if allocation.cpus:
        yield f"--cpus-per-task={allocation.cpus}"
    if allocation.gpus:
        yield f"--gpus-per-node={allocation.gpus}"
    if allocation.time:
        yield f"--time={time_of(allocation.time)}"
    if allocation.partition:
        yield f"--partition={allocation.partition}"
    yield f"--chdir={allocation.directory}"
    yield f"--output={allocation.output.replace('%', '%%')}"
    # A requeued job appends to its log. A lost host must not end the job, since the supervisor handles the loss.
    # The warning is SIGURG, which is ignored if it arrives before the supervisor handles signals.
    yield from ("--open-mode=append", "--requeue", "--no-kill", f"--signal=B:URG@{WARNING}")
    yield from allocation.arguments


def _problems_of(argument: str) -> Iterator[str]:
    read = re.match(r"(--[a-z][a-z-]*)(?==|$)|-[a-zA-Z](?!=)", argument)
    if read is None:
        yield f"--sbatch-arg {argument!r}: not an option of sbatch. Write --name=value, or -Xvalue."
        return
    if _UNWRITABLE.search(argument):
        yield f"--sbatch-arg {argument!r}: it has control characters."
    # sbatch accepts abbreviations of long names.
    name = read.group()
    taken = next((option for option in TAKEN if option == name or (len(name) > 4 and option.startswith(name))), None)
    if taken is not None:
        instead = f" Use {TAKEN[taken]}." if TAKEN[taken] else ""
        yield f"--sbatch-arg {argument}: clusterkit sets {taken} itself.{instead}"


def _shell(word: str) -> str:
    # sbatch rejects a script that contains \r\n.
    return shlex.quote(word).replace("\r", """'"$(printf '\\015')"'""")


def agent_command(clusterkit: Sequence[str], connect: str, key: str, requeues: bool = False) -> list[str]:
    """Return the command of an agent. With `requeues`, the agent requeues the job if the supervisor's host is lost."""
    return [*clusterkit, "agent", "--connect", connect, "--key", key, *(["--engine", "slurm"] if requeues else [])]


def agents_step(hosts: Sequence[str], cpus: int, log: str, command: Sequence[str]) -> list[str]:
    """Return the srun command that starts an agent on each of these hosts of the current job.

    srun runs as long as the agents. `cpus` is the job's number of CPUs per host, which srun does not inherit from the
    job. `log` is a directory: each agent prints to `<host>.log` in it until connected.
    """
    count = len(hosts)
    where = (f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", f"--nodelist={','.join(hosts)}")
    output = (f"--output={log.replace('%', '%%')}/%N.log", "--open-mode=append", "--job-name=clusterkit-agents")
    return ["srun", *_COMMON, *_APART, *where, f"--cpus-per-task={cpus}", *output, *_ON_HOST, *command]


def inside_step(job: int, host: str, command: Sequence[str]) -> list[str]:
    """Return the srun command that runs a command on a host of a job, with the input and output of this process."""
    where = (f"--jobid={job}", "--nodes=1", "--ntasks=1", f"--nodelist={host}")
    return ["srun", *_COMMON, "--quiet", "--job-name=clusterkit", *where, *command]
