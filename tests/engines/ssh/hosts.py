"""Virtual hosts with real sshds: n1, n2 and n3, each with its own key and port, and `here`, where the user is."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from clusterkit.store.directory import RunDirectory
from tests.engines.hosts import Hosts, why_no_hosts
from tests.support import ROOT, wait_until

NAMES = ("n1", "n2", "n3")
PATH = f"{os.environ['PATH']}:/usr/sbin"
PROGRAMS = ("sshd", "ssh", "ssh-keygen", "nsenter")
ENDED_WITHIN = 40.0  # seconds for what a run leaves on hosts to end with its agents' leases
SSHD = """\
Port {port}
HostKey {place}/{name}
AuthorizedKeysFile {place}/authorized
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
{more}
"""
CLIENT = """\
Host {name}
    HostName {address}
    Port {port}
    User root
    IdentityFile {place}/user
    IdentitiesOnly yes
    UserKnownHostsFile {place}/known
    GlobalKnownHostsFile /dev/null
"""


class SshHosts:
    """`hosts` by name. The user's ssh has a configuration of its own, as if it was in ~/.ssh."""

    def __init__(self, place: Path) -> None:
        self.place = self.home = place  # runs have their files below `home`
        for name in ("user", "stranger", *NAMES):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(place / name)]
            subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
        self.hosts = Hosts(("here", *NAMES), place)
        (place / "bin").mkdir()
        shim = place / "bin" / "ssh"
        shim.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {place}/config "$@"\n')
        shim.chmod(0o755)
        self.hosts["here"].start()
        self._started: list[SshUp] = []
        self._make()

    def _make(self) -> None:
        shutil.copy(self.place / "user.pub", self.place / "authorized")
        known, client = list[str](), list[str]()
        for number, name in enumerate(NAMES):
            host, port = self.hosts[name], 2200 + number
            key = (self.place / f"{name}.pub").read_text().rpartition(" ")[0]
            known.append(f"[{host.address}]:{port} {key}")
            client.append(CLIENT.format(name=name, address=host.address, port=port, place=self.place))
            self.configure(name)
        (self.place / "known").write_text("\n".join(known) + "\n")
        (self.place / "config").write_text("".join(client))
        self._changed = False

    def configure(self, name: str, *lines: str) -> None:
        """Restart a host, with these lines in the configuration of its sshd."""
        host, config = self.hosts[name], self.place / f"{name}.conf"
        host.heal()
        host.kill()
        config.write_text(
            SSHD.format(place=self.place, name=name, port=2200 + NAMES.index(name), more="\n".join(lines))
        )
        host.boot = ("sh", "-euc", f"mkdir -p /run/sshd; {shutil.which('sshd', path=PATH)} -f {config}")
        host.start()
        self._changed = True

    def edit(self, name: str, old: str, new: str) -> None:
        """Change one of the files: `config`, `known` or `authorized`."""
        file = self.place / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
        self._changed = True

    def kill(self, name: str) -> None:
        """As when a host's power fails."""
        self.hosts[name].kill()
        self._changed = True

    def cut(self, name: str) -> None:
        """Cut a host off from all others."""
        self.hosts[name].cut()
        self._changed = True

    def up(self, *args: str | Path, hosts: tuple[str, ...] = NAMES) -> SshUp:
        """Start a run."""
        named = [word for name in hosts for word in ("--host", name)]
        words = ["--engine", "ssh", "--remote-python", sys.executable, *named, *map(str, args)]
        self._started.append(SshUp(self, self.home / f"home-{len(self._started)}", words))
        return self._started[-1]

    def processes(self) -> dict[int, str]:
        """What runs on the hosts beside their sshds."""
        found = (item for name in NAMES for item in self.hosts[name].processes().items())
        return {pid: line for pid, line in found if not line.startswith("sshd: /")}

    def clear(self) -> None:
        """End the runs, check that they leave nothing anywhere, and have all hosts up as they are by default."""
        for one in self._started:
            one.end()
        self._started.clear()
        for host in self.hosts.values():
            host.heal()
        wait_until(lambda: not self.processes(), ENDED_WITHIN, lambda: str(self.processes()))
        if self._changed:
            self._make()

    def end(self) -> None:
        """End the hosts."""
        self.hosts.end()


class SshUp:
    """`clusterkit up --engine ssh` on `here`."""

    def __init__(self, ssh: SshHosts, home: Path, words: list[str]) -> None:
        home.mkdir()
        self.printed = home / "out"
        self.run = RunDirectory(home / "runs" / "r-1")
        command = [sys.executable, "-m", "clusterkit", "up", "--run-id", "r-1", *words]
        env = [f"CLUSTERKIT_HOME={home}", f"PATH={ssh.place}/bin:{PATH}"]
        line = f"cd {shlex.quote(str(ROOT))} && exec {shlex.join(command)}"
        with self.printed.open("wb") as output:
            self.process = subprocess.Popen(
                ssh.hosts["here"].enter("env", *env, "sh", "-c", line),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What it has printed."""
        return self.printed.read_text(errors="replace")

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The run's events of that kind, so far."""
        lines = self.run.journal.read_text().split("\n")[:-1] if self.run.journal.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def wait_for(self, kind: str, deadline: float = 40) -> dict[str, Any]:
        """Wait until there is one, and return it."""
        wait_until(lambda: self.events(kind), deadline, lambda: f"{kind}: {self.output[-3000:]}")
        return self.events(kind)[0]

    def wait(self, deadline: float) -> int:
        """Wait for its end; its exit code."""
        try:
            return self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"not over within {deadline:g} s: {self.output[-4000:]}") from None

    def end(self) -> None:
        """End it, where the test did not."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        self.wait(30)


@cache
def why_no_ssh() -> str | None:
    """Why this machine can't have the hosts, as a clause; None if it can."""
    missing = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    if missing:
        return f"{', '.join(missing)} can't be found (on Debian: apt-get install openssh-server)"
    return why_no_hosts()
