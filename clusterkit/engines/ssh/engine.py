"""Hosts that the user logs in to: their names, and the rules for what ssh is told."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from clusterkit.engines.base import Engine
from clusterkit.engines.options import SshOptions
from clusterkit.engines.ssh.agents import SshAgents
from clusterkit.job.options import JobOptions
from clusterkit.store.directory import RunDirectory
from clusterkit.words.errors import BadJob
from clusterkit.words.job import JobSpec
from clusterkit.words.model import number_of

# A name of ~/.ssh/config, a host name or an address. Nothing in it means anything to a shell or looks like an option.
_HOST = re.compile(r"(?:[A-Za-z0-9_][\w.-]{0,63}@)?[A-Za-z0-9_:][\w.:%-]{0,252}", re.ASCII)
MOST_BYTES = 1 << 20  # of a hosts file that are read


class Ssh(Engine):
    """The hosts are as many as are named."""

    def completed(self, options: JobOptions) -> JobOptions:
        """With the hosts of the file, and their number."""
        hosts = [*map(str, options.get("host", ())), *_in_file(options.get("hosts_file"))]
        spare = options.get("spare_hosts", 0)
        count = options.get("hosts", len(hosts) - spare)
        if problems := [*_problems(hosts, count, spare), *_python_problems(options.get("remote_python", ""))]:
            raise BadJob(problems)
        given = {name: value for name, value in options.items() if name != "hosts_file"}
        return cast(JobOptions, {**given, "host": tuple(hosts), "hosts": count})

    def problems(self, job: JobSpec) -> Iterator[str]:
        if shutil.which("ssh") is None:
            yield "The command ssh was not found. Install OpenSSH's client (on Debian: apt-get install openssh-client)."

    def allocation(self, job: JobSpec, directory: RunDirectory, continues: bool) -> SshAgents:
        settings = cast(SshOptions, job.hosts.settings)
        return SshAgents(settings["host"], settings.get("remote_python", "python3"), directory.path / "agents")


def _problems(hosts: list[str], count: int, spare: int) -> Iterator[str]:
    yield from (f"--host {name!r:.80} can't be a host of ssh's." for name in hosts if not _HOST.fullmatch(name))
    yield from (f"--host {name}: it is named twice." for name in sorted({one for one in hosts if hosts.count(one) > 1}))
    if not hosts:
        yield "--engine ssh: name the hosts, with --host NAME for each, or with --hosts-file FILE."
    elif count < 1 or count + spare != len(hosts):
        yield (
            f"--hosts {count} and --spare-hosts {spare} don't fit {number_of('host', len(hosts))} that --host and "
            "--hosts-file name. Leave out --hosts."
        )


def _python_problems(python: str) -> Iterator[str]:
    if python.startswith("-") or not python.isprintable():
        yield f"--remote-python {python!r:.80} can't be an interpreter. Give a command or a path: python3.12, say."


def _in_file(path: object) -> Iterator[str]:
    if path is None:
        return
    try:
        with Path(str(path)).open("rb") as file:
            lines = file.read(MOST_BYTES).decode("utf-8-sig", "replace").splitlines()
    except OSError as error:
        raise BadJob([f"The hosts file {path} can't be read: {error.strerror}."]) from None
    for number, line in enumerate(lines, 1):
        name = line.partition("#")[0].strip()
        if name and not _HOST.fullmatch(name):
            raise BadJob([f"The hosts file {path}, line {number}: {name!r:.80} can't be a host of ssh's."])
        yield from [name] if name else []


ENGINE = Ssh()
