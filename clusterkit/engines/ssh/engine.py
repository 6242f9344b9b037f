"""The `ssh` engine: starts an agent on each host through a separate ssh connection."""

from __future__ import annotations

import re
import resource
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import cast

from clusterkit import __version__
from clusterkit.backends.hosts.allocation import Allocation, end_all, last_line
from clusterkit.engines.base import Engine
from clusterkit.engines.options import SshOptions
from clusterkit.job.options import JobOptions
from clusterkit.store.directory import RunDirectory
from clusterkit.text.endpoints import endpoint_of, split
from clusterkit.text.printable import printable
from clusterkit.words.errors import BadJob
from clusterkit.words.job import JobSpec
from clusterkit.words.model import number_of

CONNECT_WITHIN = 10  # seconds; the time limit for ssh to connect to a host
ANSWER_WITHIN = 40.0  # seconds; the time limit for all hosts to report their versions
END_WITHIN = 3.0  # seconds; how long to wait for ssh to end after its agent; an ssh to a lost host never ends
MOST_PRINTED = 4 << 20  # bytes; the maximum output of a host; the kernel kills the ssh of a host that prints more
# Options added to the user's ssh configuration: a separate connection for the run, without prompts and forwarding.
OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": str(CONNECT_WITHIN),
    "ControlPath": "none",
    "ClearAllForwardings": "yes",
    "RemoteCommand": "none",
}
REMOTE_START = Path(__file__).with_name("remote_start.py")
# An alias in ~/.ssh/config, a host name or an address, without shell metacharacters or a leading dash.
_HOST = re.compile(r"(?:[A-Za-z0-9_][\w.-]{0,63}@)?[A-Za-z0-9_:][\w.:%-]{0,252}", re.ASCII)
MOST_BYTES = 1 << 20  # bytes; the maximum size of a hosts file; the rest is ignored


@dataclass
class SshConnection:
    """The ssh process for one host. Its output goes to two files, so ssh never blocks if nobody reads it."""

    host: str
    process: subprocess.Popen[bytes]
    printed: Path
    errors: Path
    mark: bytes  # a random token that begins the answer's line, to find it among other output of the host
    version: str = field(default="", init=False)
    peer: str = field(default="", init=False)  # the supervisor's address as seen by the host

    def has_answered(self) -> bool:
        """Return whether the host has answered; store the answer: clusterkit's version, and this machine's address."""
        with self.printed.open("rb") as file:
            text = file.read(MOST_PRINTED)
        if not self.version and (found := re.search(b"^%s (\\S{1,40}) (\\S{1,80})$" % self.mark, text, re.M)):
            self.version, self.peer = (printable(word.decode(errors="replace")) for word in found.groups())
        return bool(self.version)

    def send(self, text: bytes) -> None:
        """Send `text` (the endpoint and the key), and close the input. An empty text ends the process on the host."""
        assert self.process.stdin is not None
        with suppress(OSError), self.process.stdin as orders:  # a failure shows in ssh's exit code
            orders.write(text)

    def problem(self, python: str) -> str | None:
        """Return why the host can't run an agent, and what to do; None if it can."""
        wanted = f"Install it: ssh {self.host} {shlex.quote(python)} -m pip install tf-clusterkit=={__version__}"
        if self.version == "none":
            return f"{self.host}: clusterkit is not installed for {python}. {wanted}, or use --remote-python."
        if self.version and self.version != __version__:
            return f"{self.host} has clusterkit {self.version}, and this is {__version__}. {wanted}"
        if (code := self.process.poll()) is not None:
            hint = " Does --remote-python name an interpreter there?" if code in (126, 127) else ""
            return f"{self.host}: {self.last_line() or f'ssh ended with code {code}'}.{hint}"
        if not self.version:
            return f"{self.host}: no answer within {ANSWER_WITHIN:g} s."
        return None if _is_address(self.peer) else f"{self.host}: sshd there sets no SSH_CONNECTION."

    def last_line(self) -> str:
        """Return the last line that ssh or the agent printed to stderr."""
        return printable(last_line(self.errors).strip().rstrip("."))[:300]


class SshAgents(Allocation):
    """Starts the agents through ssh, once all hosts have answered that they can run an agent."""

    address = "::"

    def __init__(self, hosts: Sequence[str], python: str, place: Path) -> None:
        """`place` is the directory for the output of ssh."""
        self._hosts, self._python, self._place = hosts, python, place
        self._logins: list[SshConnection] = []
        self._orders: tuple[str, bytes] | None = None  # the supervisor's endpoint and the key; None once sent
        self._until = 0.0

    def start(self, endpoint: str, key: Path) -> None:
        self._place.mkdir(mode=0o700, exist_ok=True)
        self._orders, self._until = (endpoint, key.read_bytes()), time.monotonic() + ANSWER_WITHIN
        for host in self._hosts:
            self._logins.append(self._connect(host))

    def failed(self) -> str | None:
        if self._orders is not None and not self._give(*self._orders):
            return None
        for one in self._logins:
            if (code := one.process.poll()) is not None:
                return f"the agent on {one.host} ended with code {code} ({one.last_line()})"
        return None

    def stop(self) -> None:
        ending, self._logins = self._logins, []
        for one in ending if self._orders is not None else ():
            one.send(b"")
        # An agent whose ssh is killed ends by itself when its lease expires.
        end_all([one.process for one in ending], END_WITHIN if self._orders is None else 0.0)

    def _connect(self, host: str) -> SshConnection:
        printed, errors = (self._place / f"{host}.{kind}" for kind in ("out", "log"))
        mark = secrets.token_hex(16)
        options = [word for name, value in OPTIONS.items() for word in ("-o", f"{name}={value}")]
        there = [self._python, "-c", f"exec({REMOTE_START.read_text()!r})", mark, host]
        with printed.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(
                ["ssh", "-T", *options, "--", host, f"exec {shlex.join(there)}"],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                start_new_session=True,  # a Ctrl-C must reach only the supervisor
            )
        with suppress(ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MOST_PRINTED, MOST_PRINTED))
        return SshConnection(host, process, printed, errors, mark.encode())

    def _give(self, endpoint: str, key: bytes) -> bool:
        """Once all hosts have answered, send them the key and return True; until then, return False. Raises BadJob."""
        waiting = [one for one in self._logins if one.process.poll() is None and not one.has_answered()]
        if waiting and time.monotonic() < self._until:
            return False
        if problems := [why for one in self._logins if (why := one.problem(self._python)) is not None]:
            raise BadJob([*problems, "Nothing was started on any host."])
        self._orders = None
        host, port = split(endpoint)
        anywhere = ip_address(host).is_unspecified if _is_address(host) else False
        for one in self._logins:
            one.send(f"{endpoint_of(self._seen_from(one), port) if anywhere else endpoint}\n".encode() + key)
        return True

    def _seen_from(self, one: SshConnection) -> str:
        """Return the address at which a host reaches this machine. Replace a loopback address by another one."""
        peers = [each.peer for each in self._logins if not ip_address(each.peer.partition("%")[0]).is_loopback]
        return one.peer if one.peer in peers or not peers else peers[0]


def _is_address(text: str) -> bool:
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


class SshEngine(Engine):
    """The engine for hosts that are reached by ssh. A run uses all hosts that the user names."""

    def completed(self, options: JobOptions) -> JobOptions:
        """Return the options with the hosts of the hosts file, and the number of hosts. Raises BadJob."""
        hosts = [*map(str, options.get("host", ())), *_in_file(options.get("hosts_file"))]
        spare = options.get("spare_hosts", 0)
        count = options.get("hosts", len(hosts) - spare)
        problems, python = [*_problems(hosts, count, spare)], options.get("remote_python", "")
        if python.startswith("-") or not python.isprintable():
            what = f"--remote-python {python!r:.80} can't be an interpreter."
            problems.append(f"{what} Give a command or a path: python3.12, say.")
        if problems:
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
    yield from (f"--host {name!r:.80} is not a valid ssh host." for name in hosts if not _HOST.fullmatch(name))
    yield from (f"--host {name}: it is named twice." for name in sorted({one for one in hosts if hosts.count(one) > 1}))
    if not hosts:
        yield "--engine ssh: name the hosts, with --host NAME for each, or with --hosts-file FILE."
    elif count < 1 or count + spare != len(hosts):
        yield (
            f"--hosts {count} and --spare-hosts {spare} don't fit {number_of('host', len(hosts))} that --host and "
            "--hosts-file name. Leave out --hosts."
        )


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
            raise BadJob([f"The hosts file {path}, line {number}: {name!r:.80} is not a valid ssh host."])
        yield from [name] if name else []


ENGINE = SshEngine()
