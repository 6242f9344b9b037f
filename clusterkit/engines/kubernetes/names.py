"""What Kubernetes takes as names, sizes and images, and what is wrong with others."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clusterkit.engines.kubernetes.manifest import Flags

AGENT, SUPERVISOR = "agent", "supervisor"
LONGEST_LABEL = 63

# Services are named like the run, and a service's name begins with a letter (RFC 1035).
_RUN = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")


def longest_name(hosts: int) -> int:
    """How long a run's id may be: pods are called `<id>-supervisor-0-0-<5 characters>`, and by that name resolved."""
    longest = max(f"-{SUPERVISOR}-0-0-xxxxx", f"-{AGENT}-0-{max(hosts - 1, 0)}-xxxxx", key=len)
    return LONGEST_LABEL - len(longest)


def name_problems(name: str, hosts: int) -> Iterator[str]:
    """What is wrong with a run id as the name of Kubernetes objects."""
    longest = longest_name(hosts)
    if _RUN.fullmatch(name) and len(name) <= longest:
        return
    fitting = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    fitting = (fitting if fitting[:1].isalpha() else f"run-{fitting}")[:longest].rstrip("-")
    yield (
        f"--run-id {name!r} can't name Kubernetes objects: up to {longest} lower-case letters, digits and dashes, "
        f"a letter first and no dash last. For example: --run-id {fitting}"
    )


def flag_problems(flags: Flags) -> Iterator[str]:
    """What is wrong with the flags by themselves."""
    if not _IMAGE.fullmatch(flags.image):
        yield f"--image {flags.image!r} can't be the name of an image."
    if flags.namespace is not None and not _LABEL.fullmatch(flags.namespace):
        yield (
            f"--namespace {flags.namespace!r} can't be a namespace: up to {LONGEST_LABEL} lower-case letters, digits "
            "and dashes, a letter or digit first and last."
        )
    objects = [("--storage", flags.storage), ("--claim", flags.claim), *(("--env-from", n) for n in flags.env_from)]
    for flag, name in objects:
        if name is not None and not _SUBDOMAIN.fullmatch(name):
            yield (
                f"{flag} {name!r} can't name a Kubernetes object: lower-case letters, digits, dashes and dots, a "
                "letter or digit first and last."
            )
    for flag, size in (("--storage-size", flags.storage_size), ("--memory", flags.memory)):
        if size is not None and not (_QUANTITY.fullmatch(size) and re.search("[1-9]", size)):
            yield f"{flag} {size!r} is not a size. Write 512Mi, 10Gi or a number of bytes."
