"""The files of the test cluster's Slurm: what a site has, with time-outs of seconds where it has minutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

CPUS = 8  # of each host, whatever this machine has: two jobs share a host
HOST_DOWN_AFTER = 5  # seconds without an answer
KILL_WAIT = 30  # seconds from SIGTERM to SIGKILL, Slurm's own: runs may reckon with them
SOON = "KillWait=3"  # instead, for jobs that ignore SIGTERM
GRACE = 5  # seconds that preemption leaves a job
REQUEUE_DELAY = 120  # seconds, Slurm's own: a job that was requeued has to wait, unless its start time is set

CONFIG = """\
ClusterName=virtual
SlurmctldHost=head({head})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={place}/munge/socket
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/%n.log
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SlurmdTimeout={down}
MessageTimeout=5
TCPTimeout=2
KillWait={kill_wait}
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_min_interval=100000
{hosts}
PartitionName=batch Nodes=ALL Default=YES PriorityTier=1 GraceTime={grace} MaxTime=INFINITE
PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE
"""


def config(place: Path, head: str, hosts: Mapping[str, str], more: Sequence[str] = ()) -> str:
    """slurm.conf, with the controller's address and those of the hosts by name; all files are below `place`."""
    lines = [f"NodeName={name} NodeAddr={address} CPUs={CPUS} RealMemory=4000" for name, address in hosts.items()]
    text = CONFIG.format(
        place=place, head=head, down=HOST_DOWN_AFTER, kill_wait=KILL_WAIT, grace=GRACE, hosts="\n".join(lines)
    )
    return "\n".join((text, *more, ""))
