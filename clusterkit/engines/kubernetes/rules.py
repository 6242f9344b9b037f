"""What keeps a job from running in pods, however right it is elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from clusterkit.engines.kubernetes.manifest import HOME, Flags, Secret
from clusterkit.engines.kubernetes.names import flag_problems
from clusterkit.job.options import OPTIONS, JobOptions
from clusterkit.job.spec import MOST, UNFIT
from clusterkit.words.job import JobSpec, Network
from clusterkit.words.secrets import has_credentials, hidden_in


def problems_of(job: JobSpec, options: JobOptions, flags: Flags) -> Iterator[str]:
    """Every problem but those with the name."""
    yield from flag_problems(flags)
    yield from _volume_problems(options, flags)
    yield from _text_problems(job, options)
    for name in ("engine", "listen", "agent_key"):
        if name in options:
            yield f"{OPTIONS[name].flag} is set in the manifests: leave it out."
    if flags.hosts is not None and not 1 <= flags.hosts <= MOST:
        yield f"--hosts is {flags.hosts}. It has to be between 1 and {MOST}."
    if job.network is Network.VIRTUAL:
        yield "--network virtual is a network within one machine; pods have that of their cluster. Leave it out."
    if flags.secret is Secret.OUT:
        yield from _secret_problems(job)
    yield from _table_problems(job)


def _volume_problems(options: JobOptions, flags: Flags) -> Iterator[str]:
    if flags.claim is not None and (flags.storage is not None or flags.storage_size is not None):
        yield "--claim names a volume claim that there is already; --storage and --storage-size are for a new one."
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
        if UNFIT.search(text) or any("\udc80" <= character <= "\udcff" for character in text):
            yield f"{what} has bytes that are not UTF-8 text, and can't be in a manifest."


def _secret_problems(job: JobSpec) -> Iterator[str]:
    for where, setup in job.every_setup.items():
        for name in hidden_in(setup.env, job.show_env):
            yield (
                f"--no-secret: {where}env: {name} may be a secret, and would be in the documents. Leave it out of "
                "the job, and name a Secret of yours that has it: --env-from NAME. If it is none, add --show-env."
            )
    if has_credentials(job):
        yield "--no-secret: the job has a URL with credentials in it, which would be in the documents. Use a variable."


def _table_problems(job: JobSpec) -> Iterator[str]:
    """The tables lie in a directory of their own in the supervisor's pod, to which their paths would be relative."""
    for kind, setup in job.setups.items():
        for name, path in (("cwd", setup.cwd), ("python", setup.python)):
            if path is not None and not path.startswith("/") and (name == "cwd" or "/" in path):
                yield f"task.{kind}.{name} is {path}: write the full path that it has in the image."
