"""A Slurm of this machine's own packages on virtual hosts: a controller to log in to, `head`, and n1, n2 and n3."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

from tests.engines.hosts import Hosts, run, why_no_hosts
from tests.engines.slurm_config import config
from tests.support import wait_until

NAMES = ("n1", "n2", "n3")
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "nsenter", "setpriv")
PACKAGES = "slurmctld slurmd slurm-client munge"
DAEMONS = ("slurmctld", "slurmd", "munged", ": slurmscriptd")
CLIENTS = ("sbatch", "srun", "squeue", "sinfo", "scontrol", "scancel")
UP_WITHIN = 20.0  # seconds; it takes less than one
PAUSE = 0.1  # seconds between two looks at something that a command has to be run for
COMMAND = 30.0  # seconds for a client command: without a controller some try for minutes
CLEARED_WITHIN = 60.0
# The first start makes the key of munge; a later one, after the host was killed, finds Slurm's state.
HEAD = """
cd "$1"
[ -d munge ] || { install -d -o munge munge; head -c 1024 /dev/urandom > munge/key; chmod 400 munge/key; }
chown munge munge/key
rm -f munge/socket*
setpriv --reuid munge --regid munge --clear-groups munged --num-threads 2 --key-file "$1/munge/key" \
    --socket "$1/munge/socket" --pid-file "$1/munge/pid" --log-file "$1/munge/log" --seed-file "$1/munge/seed"
slurmctld
"""
# A client command for those who are not on a host: on `head`.
SHIM = """\
#!/bin/sh
case $(uname -n) in head | n[0-9]) exec {command} "$@" ;; esac
exec nsenter --target="$(cat {place}/head.first)" --net --mount --uts -- {command} "$@"
"""


class SlurmCluster:
    """Up when this returns. `hosts` has each by its name; whoever submits jobs is on `head`.

    `place` is its directory, and `jobs` the one in which jobs start and leave their output. All hosts share this
    machine's files, but for /etc/hosts, /run and /dev/shm. With the variables `env`, a process of this machine has the
    client commands without being on a host.
    """

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="slurm-"))
        self.jobs = self.place / "jobs"
        self.env = {"PATH": f"{self.place}/bin{os.pathsep}{os.environ['PATH']}"}
        with ExitStack() as ending:
            ending.callback(shutil.rmtree, self.place)
            self._write_files()
            self.hosts = Hosts(("head", *NAMES), self.place, self.place / "etc")
            ending.callback(self.hosts.end)
            self.head = self.hosts["head"]
            self._start()
            self._ending = ending.pop_all()

    def run(self, *argv: str | Path, deadline: float = COMMAND) -> str:
        """What a command on `head` prints; the test fails where the command does."""
        ran = self.head.run(*argv, deadline=deadline)
        assert ran.returncode == 0, f"{argv[0]} exits with {ran.returncode}: {ran.stderr}{ran.stdout}"
        return ran.stdout

    def submit(self, script: str, *args: str) -> int:
        """Submit a batch script by its text; return the job's id. `#!/bin/sh` may be left out."""
        text = script if script.startswith("#!") else f"#!/bin/sh\n{script}\n"
        words = self.head.enter("sbatch", "--parsable", f"--chdir={self.jobs}", *args)
        ran = run(words, COMMAND, text)
        assert ran.returncode == 0, f"sbatch exits with {ran.returncode}: {ran.stderr}"
        return int(ran.stdout.partition(";")[0])

    def output(self, job: int) -> str:
        """What a job has printed so far."""
        path = self.jobs / f"slurm-{job}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def job(self, job: int) -> dict[str, str]:
        """What `scontrol show job` says: its fields by name. No value that a test needs has a blank in it."""
        return dict(word.partition("=")[::2] for word in self.run("scontrol", "show", "job", "-o", str(job)).split())

    def wait(self, condition: Callable[[], object], deadline: float, what: str = "that") -> None:
        """Wait until a condition is true that is dear to ask for; fail with all there is to know."""
        wait_until(condition, deadline, lambda: f"{what}\n{self.describe()}", PAUSE)

    def wait_state(self, job: int, *states: str, deadline: float) -> dict[str, str]:
        """Wait until a job is in one of the states, such as `RUNNING`; return what Slurm says of it."""
        found = dict[str, str]()

        def is_there() -> bool:
            found.update(self.job(job))
            return found["JobState"] in states

        self.wait(is_there, deadline, f"job {job} {' or '.join(states)}")
        return found

    def wait_output(self, job: int, text: str, deadline: float) -> None:
        """Wait until a job has printed a text."""
        wait_until(lambda: text in self.output(job), deadline, lambda: f"{text!r} in {self.output(job)!r}")

    def wait_host(self, name: str, state: str, deadline: float) -> None:
        """Wait until a host is `idle`, `mixed`, `down`, … by what Slurm knows."""
        self.wait(lambda: self.host_states().get(name) == state, deadline, f"{name} {state}")

    def wait_idle(self, deadline: float) -> None:
        """Wait until all hosts are, by what Slurm knows."""
        self.wait(lambda: set(self.host_states().values()) == {"idle"}, deadline, "all hosts idle")

    def hasten(self, job: int) -> None:
        """Once a job is requeued, spare it the two minutes that it has to wait."""
        self.wait(lambda: self.job(job)["Reason"] == "BeginTime", CLEARED_WITHIN, f"job {job} requeued")
        self.run("scontrol", "update", f"JobId={job}", "StartTime=now+2seconds")

    def host_states(self) -> dict[str, str]:
        """The state of each host; none while the controller does not answer."""
        ran = self.head.run("sinfo", "--noheader", "--Node", "--partition=batch", "--format=%N %T", deadline=COMMAND)
        lines = [line.split() for line in ran.stdout.splitlines() if ran.returncode == 0]
        return {name: state.rstrip("*") for name, state in lines}

    def processes(self) -> dict[str, dict[int, str]]:
        """What runs on the hosts beside Slurm's daemons: pids as they are here, and command lines. `{}`: nothing."""
        found = dict[str, dict[int, str]]()
        for name, host in self.hosts.items():
            for pid, line in host.processes().items():
                if not (line.startswith(DAEMONS) and host.owns(pid)):
                    found.setdefault(name, {})[pid] = line
        return found

    def clear(self) -> None:
        """Make it as it was when it came up: hosts up and connected, without jobs and processes of jobs."""
        for host in self.hosts.values():
            host.heal()
            if not host.is_up:
                host.start()
        if jobs := self.run("squeue", "--noheader", "--format=%A").split():
            self.run("scancel", "--quiet", *jobs)
        self._kill_tasks()
        self.wait(lambda: not self.run("squeue", "--noheader"), CLEARED_WITHIN, "no jobs")
        if self._is_configured:
            self.configure()
        self.wait_idle(CLEARED_WITHIN)
        self.wait(lambda: not self.processes(), CLEARED_WITHIN, "no processes of jobs")

    def configure(self, *lines: str) -> None:
        """Add lines to slurm.conf, until `clear`."""
        self._write_config(lines)
        self.run("scontrol", "reconfigure")
        self.wait_idle(CLEARED_WITHIN)

    def restart(self) -> None:
        """Restart every host, whatever it is doing, and forget all jobs."""
        for host in self.hosts.values():
            host.heal()
            host.kill()
        shutil.rmtree(self.place / "state")
        (self.place / "state").mkdir()
        self._start()

    def describe(self) -> str:
        """What there is to know where something did not come as expected."""
        shown = (self.head.run(*words, deadline=COMMAND) for words in (("sinfo", "-N", "-l"), ("squeue", "-l")))
        logs = (self.place / f"{name}.log" for name in ("slurmctld", *NAMES))
        tails = (log.read_text(errors="replace")[-2000:] for log in logs if log.exists())
        return "\n".join((*(ran.stdout + ran.stderr for ran in shown), *tails, str(self.processes())))

    def end(self) -> None:
        """End all processes, and remove all files."""
        self._ending.close()

    def _kill_tasks(self) -> None:
        # What ignores SIGTERM would take its time.
        tasks = (pid for some in self.processes().values() for pid, line in some.items() if "slurmstepd" not in line)
        for pid in tasks:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _start(self) -> None:
        self._write_config()
        self.head.boot = ("sh", "-euc", HEAD, "head", str(self.place))
        for name in NAMES:
            self.hosts[name].boot = ("slurmd", "-N", name)
        for host in self.hosts.values():
            host.start()
        self.wait_idle(UP_WITHIN)

    def _write_files(self) -> None:
        self.place.chmod(0o711)  # other users' commands look for munge's socket in it
        for name in ("state", "jobs", "etc", "bin", *NAMES):
            (self.place / name).mkdir()
        for name in CLIENTS:
            file = self.place / "bin" / name
            file.write_text(SHIM.format(command=shutil.which(name), place=self.place))
            file.chmod(0o755)

    def _write_config(self, more: Sequence[str] = ()) -> None:
        self._is_configured = bool(more)
        addresses = {name: self.hosts[name].address for name in NAMES}
        lines = config(self.place, self.head.address, addresses, more)
        (self.place / "etc" / "slurm.conf").write_text(lines)


@cache
def why_no_slurm() -> str | None:
    """Why this machine can't have the test cluster, as a clause; None if it can."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing or not any(user.pw_name == "munge" for user in pwd.getpwall()):
        return f"{', '.join(missing or ['the user munge'])} can't be found (on Debian: apt-get install {PACKAGES})"
    return why_no_hosts()
