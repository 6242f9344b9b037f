"""The input of `clusterkit manifests`, and the checks that reject jobs which can't run in pods."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from clusterkit.job import spec
from clusterkit.job.devices import computing
from clusterkit.job.options import OPTIONS, JobOptions
from clusterkit.words.job import JobSpec, Network
from clusterkit.words.secrets import has_credentials, hidden_in

JSON = None | bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"]
Document = Mapping[str, JSON]  # one Kubernetes object, or a part of one

MOST = 2**31 - 1  # the largest integer in a Kubernetes object
HOME = "/var/lib/clusterkit"  # the mount point of the shared volume in all pods, and the supervisor's CLUSTERKIT_HOME
AGENT, SUPERVISOR = "agent", "supervisor"
LONGEST_LABEL = 63
# A Service gets the run's name, and the name of a Service has to begin with a letter (RFC 1035).
_RUN = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")


class Secret(enum.StrEnum):
    """Whether the documents include the Secret with the run's key, omit the Secret, or consist of it alone."""

    TOO = "too"
    OUT = "out"
    ONLY = "only"


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """The metadata that all objects of a run share. Their names begin with `run`, the run's id."""

    run: str
    namespace: str | None

    @property
    def key(self) -> str:
        return f"{self.run}-key"


@dataclass(frozen=True, slots=True)
class ManifestFlags:
    """The values of the command's flags that are not options of the job."""

    image: str
    namespace: str | None = None
    hosts: int | None = None
    storage: str | None = None
    storage_size: str | None = None
    claim: str | None = None
    memory: str | None = None
    env_from: tuple[str, ...] = ()
    secret: Secret = Secret.TOO


@dataclass(frozen=True, slots=True)
class Manifest:
    """A valid job for Kubernetes, and the flags for its objects."""

    name: str  # the run's id, and the beginning of all object names
    job: JobSpec
    options: JobOptions  # the job's options without the run's id
    flags: ManifestFlags

    @property
    def place(self) -> RunMetadata:
        return RunMetadata(self.name, self.flags.namespace)

    @property
    def hosts(self) -> int:
        """Return the number of agents that get tasks when the run starts."""
        return hosts_of(self.job, self.flags)

    @property
    def agents(self) -> int:
        """Return the number of all agents, including spare agents, which get tasks only after another agent is lost."""
        return agents_of(self.job, self.flags)

    @property
    def claim(self) -> str:
        return self.flags.claim or self.name


def hosts_of(job: JobSpec, flags: ManifestFlags) -> int:
    """Return the number of hosts that the flags request; by default, one host for each task that computes."""
    return len(computing(job)) if flags.hosts is None else flags.hosts


def agents_of(job: JobSpec, flags: ManifestFlags) -> int:
    return hosts_of(job, flags) + job.hosts.spare


def longest_name(hosts: int) -> int:
    """Return the maximum length of a run id. Pods have DNS names such as `<id>-supervisor-0-0-<5 characters>`."""
    longest = max(f"-{SUPERVISOR}-0-0-xxxxx", f"-{AGENT}-0-{max(hosts - 1, 0)}-xxxxx", key=len)
    return LONGEST_LABEL - len(longest)


def name_problems(name: str, hosts: int) -> Iterator[str]:
    longest = longest_name(hosts)
    if _RUN.fullmatch(name) and len(name) <= longest:
        return
    fitting = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    fitting = (fitting if fitting[:1].isalpha() else f"run-{fitting}")[:longest].rstrip("-")
    yield (
        f"--run-id {name!r} can't name Kubernetes objects: up to {longest} lower-case letters, digits and dashes, "
        f"a letter first and no dash last. For example: --run-id {fitting}"
    )


def flag_problems(flags: ManifestFlags) -> Iterator[str]:
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


def problems_of(job: JobSpec, options: JobOptions, flags: ManifestFlags) -> Iterator[str]:
    """Yield all problems except those of the run's id."""
    yield from flag_problems(flags)
    yield from _volume_problems(options, flags)
    yield from _text_problems(job, options)
    for name in ("engine", "listen", "agent_key"):
        if name in options:
            yield f"{OPTIONS[name].flag} is set in the manifests: leave it out."
    if flags.hosts is not None and not 1 <= flags.hosts <= spec.MOST_TASKS:
        yield f"--hosts is {flags.hosts}. It has to be between 1 and {spec.MOST_TASKS}."
    if job.network is Network.VIRTUAL:
        yield "--network virtual is a network within one machine; pods use their cluster's network. Leave it out."
    if flags.secret is Secret.OUT:
        yield from _secret_problems(job)
    yield from _table_problems(job)


def _volume_problems(options: JobOptions, flags: ManifestFlags) -> Iterator[str]:
    if flags.claim is not None and (flags.storage is not None or flags.storage_size is not None):
        yield "--claim names a volume claim that already exists; --storage and --storage-size are for a new one."
    if "resume" in options and flags.claim is None:
        yield "--resume reads the directory of an earlier run. Name the claim of the volume that has it: --claim NAME."
    directory = options.get("checkpoint_dir")
    if directory is not None and not str(directory).startswith(f"{HOME}/"):
        yield f"--checkpoint-dir {directory}: the directory that all pods share is {HOME}. Name one below it."


def _text_problems(job: JobSpec, options: JobOptions) -> Iterator[str]:
    texts: dict[str, str] = {
        "the program": job.program.target,
        **{f"argument {number} of the program": text for number, text in enumerate(job.program.args, 1)},
        **{f"--{name.replace('_', '-')}": str(value) for name, value in options.items() if name in OPTIONS},
    }
    for where, setup in job.every_setup.items():
        texts |= {f"{where}env: {name!r}": name + value for name, value in setup.env.items()}
        texts |= {f"{where}args": "".join(setup.args or ()), f"{where}cwd": setup.cwd or ""}
    for what, text in texts.items():
        if spec.UNFIT_CHARACTERS.search(text) or any("\udc80" <= character <= "\udcff" for character in text):
            yield f"{what} has bytes that are not UTF-8 text, and can't be in a manifest."


def _secret_problems(job: JobSpec) -> Iterator[str]:
    for where, setup in job.every_setup.items():
        for name in hidden_in(setup.env, job.show_env):
            yield (
                f"--no-secret: {where}env: {name} may be a secret, and would be in the documents. Leave it out of "
                "the job, and name a Secret of yours that has it: --env-from NAME. If it is not secret, add --show-env."
            )
    if has_credentials(job):
        yield "--no-secret: the job has a URL with credentials in it, which would be in the documents. Use a variable."


def _table_problems(job: JobSpec) -> Iterator[str]:
    """Yield a problem for each relative path in a task table, since the job file is in another directory in the pod."""
    for kind, setup in job.setups.items():
        for name, path in (("cwd", setup.cwd), ("python", setup.python)):
            if path is not None and not path.startswith("/") and (name == "cwd" or "/" in path):
                yield f"task.{kind}.{name} is {path}: write the full path that it has in the image."
