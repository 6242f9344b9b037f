"""The command lines of srun: the agents on the hosts of a job, and one command beside its supervisor."""

from __future__ import annotations

from collections.abc import Sequence

# What a site or the job's own options may have set otherwise. The whole environment goes along; no MPI; memory and CPUs
# are shared with whatever else runs in the job; and the end of one agent does not end the others.
_COMMON = ("--overlap", "--export=ALL", "--mpi=none", "--mem=0")
_APART = ("--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--input=none", "--unbuffered", "--cpu-bind=none")
# The one command line is the same on all hosts, and only there Slurm says which one it is.
_ON_HOST = ("sh", "-c", 'exec "$@" --host "$SLURMD_NODENAME"', "agent")


def agent_command(clusterkit: Sequence[str], connect: str, key: str, requeues: bool = False) -> list[str]:
    """The command of an agent; `connect` is `address:port` of the supervisor, `key` a file that all hosts see.

    `requeues`: if the host of the supervisor is lost, the agent has the job requeued.
    """
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
