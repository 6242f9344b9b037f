"""Checks that reject job options which are not supported on more than one host."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from clusterkit.backends.base import Preflight
from clusterkit.backends.hosts.incoming import MOST_OPEN
from clusterkit.backends.link.certificate import CertificateError, tls_context
from clusterkit.machine.hosts import Rule
from clusterkit.text.endpoints import split
from clusterkit.words.faults import ON_NETWORK, FaultAction
from clusterkit.words.job import JobSpec, Network
from clusterkit.words.model import Shape

DESCRIPTORS_OWN = 40  # the number of descriptors that the supervisor itself needs
LONGEST_VARIABLE = 128 << 10  # bytes; the limit for an environment variable, Linux's MAX_ARG_STRLEN
LONGEST_ENDPOINT = len('"255.255.255.255:65535", ')


def preflight(job: JobSpec) -> Preflight:
    """Check a job that runs on several hosts. Each host's resources are checked when its agent joins."""
    return Preflight(job, list(_problems(job)), list(_warnings(job)))


def _warnings(job: JobSpec) -> Iterator[str]:
    size = LONGEST_ENDPOINT * len(job.cluster)
    if job.shape is not Shape.SINGLE and size > LONGEST_VARIABLE:
        yield (
            f"TF_CONFIG of {len(job.cluster)} tasks may have {size >> 10} KiB, and Linux starts no program with a "
            f"variable of more than {LONGEST_VARIABLE >> 10}: tasks have to start warm, and can't start programs."
        )
    hosts = job.hosts.count + job.hosts.spare
    needed, (soft, _) = hosts + MOST_OPEN + DESCRIPTORS_OWN, resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and needed > soft:
        yield (
            f"The connections to {hosts} hosts, and their tasks' logs, take about {needed} descriptors, and the limit "
            f"is {soft}. Raise it where the supervisor runs: ulimit -n {needed}"
        )


def _problems(job: JobSpec) -> Iterator[str]:
    if job.network is Network.VIRTUAL:
        yield "--network virtual is for tasks on one machine: hosts have a network of their own. Leave out --hosts."
    for fault in job.faults:
        if fault.action in ON_NETWORK or fault.action is FaultAction.DISK_FULL:
            yield f"The fault {fault} is for tasks on one machine, with a network or a disk of their own."
    for text in job.hosts.place:
        try:
            rule = Rule.parse(text)
        except ValueError as error:
            yield f"--place: {error}"
            continue
        if not any(rule.covers(task) for task in job.tasks):
            yield f"--place {text}: the job has no {rule.tasks}."
    if job.hosts.listen is not None:
        try:
            split(job.hosts.listen)
        except ValueError as error:
            yield f"--listen: {error}"
    try:
        if job.hosts.key is not None:
            tls_context(Path(job.hosts.key), is_server=True)
    except CertificateError as error:
        yield f"--agent-key: {error}"
    if find_spec("cryptography") is None:
        yield "A run on several hosts needs the package cryptography: pip install 'tf-clusterkit[engines]'."
