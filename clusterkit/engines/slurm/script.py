"""What Slurm is told: the batch script of a run, and the command lines of srun."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

WARNING = 120  # seconds between Slurm's warning and the time limit; Slurm looks every 30 s, so it may be 60 s off
_PLAIN = re.compile(r"[\w@%+=:,./-]")
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f]")
# sbatch options that would undo what the script relies on, and what to use instead.
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
# The variables that stand for an option, where they are not called as it is; and those of options that no script has.
_VARIABLES = {"time": ("TIMELIMIT",), "requeue": ("NO_REQUEUE",)}
_NEVER = ("ARRAY_INX", "ERROR", "INPUT")
# What a site or the job's own options may have set otherwise. The whole environment goes along; no MPI; memory and CPUs
# are shared with whatever else runs in the job; and the end of one agent does not end the others.
_COMMON = ("--overlap", "--export=ALL", "--mpi=none", "--mem=0")
_APART = ("--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--input=none", "--unbuffered", "--cpu-bind=none")
# The one command line is the same on all hosts, and only there Slurm says which one it is.
_ON_HOST = ("sh", "-c", 'exec "$@" --host "$SLURMD_NODENAME"', "agent")


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """What a run asks Slurm for."""

    name: str
    hosts: int
    directory: str
    output: str  # the file that takes what the supervisor prints
    time: float = 0.0  # seconds; 0 and "" leave the choice to Slurm
    partition: str = ""
    cpus: int = 0  # on each host, as are the GPUs
    gpus: int = 0
    arguments: Sequence[str] = ()  # further options of sbatch, each with its value in one word
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
    """Return the text of the script, for an allocation without problems. The command is the batch step itself."""
    lines = ["#!/bin/sh", *(f"#SBATCH {quoted(option)}" for option in _options(allocation))]
    lines += [f"export {name}={_shell(value)}" for name, value in sorted(allocation.environment.items())]
    return "\n".join((*lines, f"exec {' '.join(map(_shell, command))}", ""))


def overriding(script: str) -> set[str]:
    """Return the environment variables that sbatch would prefer to the script's own lines: SBATCH_SIGNAL, …"""
    options = _OPTION.findall(script)
    names = {option.upper().replace("-", "_") for option in options}
    return {f"SBATCH_{name}" for name in names.union(_NEVER, *(_VARIABLES.get(option, ()) for option in options))}


def quoted(word: str) -> str:
    """Write a word so that sbatch reads it from an #SBATCH line as it is. Not as a shell: `\\` escapes anything."""
    if all(map(_PLAIN.match, word)):
        return word
    escaped = word.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


def time_of(seconds: float) -> str:
    """Write a time limit: `1-02:03:04`. Slurm rounds it up to minutes."""
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
    # A requeued job appends to its log. A lost host is the supervisor's to deal with, and not the job's end.
    # The warning may come before the supervisor listens: SIGURG is nothing to it then.
    yield from ("--open-mode=append", "--requeue", "--no-kill", f"--signal=B:URG@{WARNING}")
    yield from allocation.arguments


def _problems_of(argument: str) -> Iterator[str]:
    read = re.match(r"(--[a-z][a-z-]*)(?==|$)|-[a-zA-Z](?!=)", argument)
    if read is None:
        yield f"--sbatch-arg {argument!r}: not an option of sbatch. Write --name=value, or -Xvalue."
        return
    if _UNWRITABLE.search(argument):
        yield f"--sbatch-arg {argument!r}: it has control characters."
    # sbatch accepts the beginning of a long name.
    name = read.group()
    taken = next((option for option in TAKEN if option == name or (len(name) > 4 and option.startswith(name))), None)
    if taken is not None:
        instead = f" Use {TAKEN[taken]}." if TAKEN[taken] else ""
        yield f"--sbatch-arg {argument}: clusterkit sets {taken} itself.{instead}"


def _shell(word: str) -> str:
    # sbatch rejects a script with \r\n in it.
    return shlex.quote(word).replace("\r", """'"$(printf '\\015')"'""")


def agent_command(clusterkit: Sequence[str], connect: str, key: str, requeues: bool = False) -> list[str]:
    """The command of an agent; `requeues`: it has the job requeued if the host of the supervisor is lost."""
    return [*clusterkit, "agent", "--connect", connect, "--key", key, *(["--engine", "slurm"] if requeues else [])]


def agents_step(hosts: Sequence[str], cpus: int, log: str, command: Sequence[str]) -> list[str]:
    """Return the srun command that starts an agent on each of these hosts of the job that it runs in.

    srun itself lives as long as the agents. `cpus` is how many the job has on each host: srun does not know it from
    the job. `log` is a directory: what an agent prints before it has a connection is in `<host>.log` there.
    """
    count = len(hosts)
    where = (f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", f"--nodelist={','.join(hosts)}")
    output = (f"--output={log.replace('%', '%%')}/%N.log", "--open-mode=append", "--job-name=clusterkit-agents")
    return ["srun", *_COMMON, *_APART, *where, f"--cpus-per-task={cpus}", *output, *_ON_HOST, *command]


def inside_step(job: int, host: str, command: Sequence[str]) -> list[str]:
    """Return the srun command that runs a command on a host of a job, with this terminal's input and output."""
    where = (f"--jobid={job}", "--nodes=1", "--ntasks=1", f"--nodelist={host}")
    return ["srun", *_COMMON, "--quiet", "--job-name=clusterkit", *where, *command]
