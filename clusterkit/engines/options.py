"""The table of engines: their names, the options for hosts that all engines share, and each engine's own options.

The table is read for every job, so it imports no engine. To add an engine, create `engines/<name>/engine.py`, and add
the name to `EngineName`. The options of an individual engine have a separate class. The help uses the docstrings of
the classes as headings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypedDict

from clusterkit.words.options import Duration, Option, Path

EngineName = Literal[
    "local",
    "slurm",
    "ssh",
    "agents",
]


class HostOptions(TypedDict, total=False):
    """Several hosts"""

    engine: Annotated[
        EngineName,
        Option("What starts the agents: this machine, Slurm, ssh, or you yourself.", "hosts.engine"),
    ]
    hosts: Annotated[
        int,
        Option(
            "Number of hosts to place the tasks on.",
            "hosts.count",
            default="those named, else this machine",
            most=16_384,
        ),
    ]
    spare_hosts: Annotated[int, Option("Number of spare hosts, in case one is lost.", "hosts.spare", most=16_384)]
    place: Annotated[
        Sequence[str], Option("Place a task, or all tasks of a type, on a host: ps=host0.", "hosts.place", "TASK=HOST")
    ]
    interface: Annotated[str, Option("The network interface over which tasks connect.", "hosts.interface", "NAME")]
    agent_timeout: Annotated[
        Duration, Option("How long a host may be cut off before it counts as lost.", "hosts.timeout")
    ]
    listen: Annotated[
        str, Option("The address at which the supervisor waits for agents.", "hosts.listen", "ADDRESS[:PORT]")
    ]
    agent_key: Annotated[Path, Option("A file with the run's key, instead of a new one.", "hosts.key", "FILE")]


class SlurmOptions(TypedDict, total=False):
    """Slurm"""

    time: Annotated[Duration, Option("The time limit of the Slurm job.", default="the partition's")]
    partition: Annotated[str, Option("The Slurm partition.", metavar="NAME", default="Slurm's default")]
    sbatch_arg: Annotated[Sequence[str], Option("A further option for sbatch.", metavar="--NAME=VALUE")]


class SshOptions(TypedDict, total=False):
    """SSH"""

    host: Annotated[Sequence[str], Option("A host to log in to, written as for ssh.", metavar="[USER@]HOST")]
    hosts_file: Annotated[Path, Option("A file with the names of more hosts, one per line.", metavar="FILE")]
    remote_python: Annotated[
        str, Option("The hosts' interpreter, which must have clusterkit.", metavar="PYTHON", default="python3")
    ]


class EngineOptions(HostOptions, SlurmOptions, SshOptions, total=False):
    """The options about hosts."""


OPTIONS_OF: Mapping[str, type] = {"slurm": SlurmOptions, "ssh": SshOptions}
