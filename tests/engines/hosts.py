"""Virtual hosts on this machine: each has its own network, hostname, hosts file and, but for the first, processes.

A host's first process is `cat` on a pipe from here. The kernel kills every process of a host with its first one, and
that one ends when the pipe does: nothing outlives the tests, however they end.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from clusterkit.network.switch.links import Layer
from clusterkit.network.virtual import NetworkPlan, VirtualNetwork, why_not
from clusterkit.system import procfs
from clusterkit.words.model import Task, TaskType

CUT = Layer(cut=True)
BOOTED_WITHIN = 20.0  # seconds; it takes less than one
# The pid has to be read before the host has a /proc of its own; `cat` says it when it runs. It ignores SIGCHLD, so that
# orphans are reaped; a shell can't.
FIRST = """
read -r pid rest < /proc/self/stat
hostname "$1"
mount --bind "$2" /etc/hosts
[ -z "$3" ] || mount --bind "$3" /etc/slurm
[ "$4" = shared ] || { mount -t proc proc /proc; mount -t tmpfs none /run; mount -t tmpfs none /dev/shm; }
echo "$pid" > "$5"
exec env --ignore-signal=CHLD cat "$5" -
"""
UNSHARE = ("unshare", "--fork", "--kill-child", "--pid", "--mount", "--uts", "sh", "-euc", FIRST, "first")


class Host:
    """One host: `address` on the hosts' network, and while it is up `first`, the pid (here) of its first process."""

    def __init__(self, name: str, number: int, network: VirtualNetwork, files: tuple[Path, Path | None]) -> None:
        self.name = name
        self.boot: tuple[str, ...] = ()  # a command that runs there after each start
        self._task = _task(number)
        self._network = network
        self._files = files
        self._shares_processes = number == 0
        self.address = network.addresses[self._task]
        self.first = 0
        self._process: subprocess.Popen[str] | None = None
        self._layers = 0

    @property
    def is_up(self) -> bool:
        """Whether it has a first process."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, and the command that it boots with."""
        assert not self.is_up, f"{self.name} is up already"
        (namespace,) = self._network.namespaces(self._task)
        hosts, slurm = self._files
        sharing = "shared" if self._shares_processes else "own"
        words = [self.name, str(hosts), str(slurm or ""), sharing, str(hosts.parent / f"{self.name}.first")]
        self._process = subprocess.Popen(
            ["nsenter", f"--net=/proc/self/fd/{namespace}", *UNSHARE, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # some versions of unshare complain at their end
            text=True,
            cwd="/",
            pass_fds=(namespace,),
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.first = int(self._process.stdout.readline() or 0)
        assert self.first, f"{self.name} does not start"
        if self.boot:
            booted = run(self.enter(*self.boot, with_processes=True), BOOTED_WITHIN)
            assert booted.returncode == 0, f"{self.name} does not boot: {booted.stderr}"

    def kill(self) -> None:
        """As when its power fails: all its processes are gone when this returns."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self.first, 9)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(20)
        self._process = None

    def enter(self, *argv: str | Path, with_processes: bool | None = None) -> list[str]:
        """The command that runs another one on this host.

        On the first host it becomes that other one, which is an ordinary child here; elsewhere it is its parent, and
        ends with its exit code or signal.
        """
        own = not self._shares_processes if with_processes is None else with_processes
        inside = ("--net", "--mount", "--uts", *(("--pid",) if own else ()))
        return ["nsenter", f"--target={self.first}", *inside, "--", *map(str, argv)]

    def run(self, *argv: str | Path, deadline: float = 20) -> subprocess.CompletedProcess[str]:
        """Run a command on it to its end."""
        return run(self.enter(*argv), deadline)

    def cut(self, *others: Host) -> None:
        """Let no packet pass between it and others, or all others where none is named, until `heal`."""
        self.impair(CUT, *others)

    def impair(self, layer: Layer, *others: Host) -> None:
        """Cut, delay or slow down its packets to and from others, or all others, until `heal`."""
        self._layers += 1
        far = [other._task for other in others] or list(self._network.addresses)
        self._network.impair(self._number(self._layers), [self._task], far, layer)

    def heal(self) -> None:
        """End what `cut` and `impair` of this host began."""
        for layer in range(1, self._layers + 1):
            self._network.heal(self._number(layer))
        self._layers = 0

    def processes(self) -> dict[int, str]:
        """Every process on it but its first: pids as they are here, and command lines."""
        if self._process is None:
            return {}
        kinds = ("net", "pid") if self._shares_processes else ("pid",)
        mine, its_own = {_namespace(self.first, kind) for kind in kinds}, {self.first, self._process.pid}
        found = (pid for pid in procfs.all_pids() if mine & {_namespace(pid, kind) for kind in kinds} - {None})
        return {
            pid: " ".join(procfs.argv_of(pid)).strip()
            for pid in found
            if pid not in its_own and not procfs.is_zombie(pid)
        }

    def owns(self, pid: int) -> bool:
        """Whether a process ends with the host."""
        return _namespace(pid, "pid") == _namespace(self.first, "pid")

    def _number(self, layer: int) -> int:
        return self._task.index * 1000 + layer


class Hosts(Mapping[str, Host]):
    """Hosts by name, connected by a virtual network, to be started. One logs in to the first.

    `place` takes the files that make them; `slurm` is what they have at /etc/slurm.
    """

    def __init__(self, names: Sequence[str], place: Path, slurm: Path | None = None) -> None:
        self._network = VirtualNetwork(NetworkPlan([_task(n) for n in range(len(names))], seed=1), place / "switch", {})
        addresses = [self._network.addresses[_task(n)] for n in range(len(names))]
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for address, name in zip(addresses, names, strict=True))]
        (place / "hosts").write_text("\n".join(lines) + "\n")
        files = (place / "hosts", slurm)
        self._hosts = {name: Host(name, number, self._network, files) for number, name in enumerate(names)}

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)

    def end(self) -> None:
        """End the hosts with all their processes, and the network."""
        for host in self.values():
            host.kill()
        self._network.stop()


def run(argv: Sequence[str], deadline: float, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command with a text as its input. After `deadline` seconds it is killed, and the test fails."""
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(text, timeout=deadline)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            raise AssertionError(f"still running after {deadline:g} s: {' '.join(argv)}") from None
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


@cache
def why_no_hosts() -> str | None:
    """Why this machine can't have virtual hosts, as a clause; None if it can."""
    if os.geteuid() != 0:
        return "only root can have hosts with processes of their own"
    tried = subprocess.run([*UNSHARE[:6], "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        return f"namespaces can't be created: {tried.stderr.strip()}"
    return why_not(network=True, disk=False)


def _task(number: int) -> Task:
    return Task(TaskType.WORKER, number)


def _namespace(pid: int, kind: str) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    except OSError:
        return None
