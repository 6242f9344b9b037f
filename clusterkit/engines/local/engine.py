"""The `local` engine: its agents are processes of this machine that act as hosts, to try out the loss of a host."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from clusterkit.backends.hosts.allocation import Allocation, end_all, last_line, start_agents
from clusterkit.backends.link.address import NoInterface, address_on
from clusterkit.engines.base import Engine
from clusterkit.store.directory import RunDirectory
from clusterkit.system.process import code_of, own_python
from clusterkit.words.job import JobSpec

MOST = 1024  # the maximum number of hosts; an agent takes 15 MB of memory
END_WITHIN = 10.0  # seconds; how long to wait for agents that were requested to end


class LocalAgents(Allocation):
    """Agents on this machine, named host0, host1, … When the supervisor ends, they kill their tasks and end."""

    def __init__(self, count: int, log: Path) -> None:
        self._count, self._log = count, log
        self.agents: list[subprocess.Popen[bytes]] = []
        self._lifeline_end: int | None = None

    address = "127.0.0.1"

    def start(self, endpoint: str, key: Path) -> None:
        """Start the agents. Their output goes to a file in the run directory."""
        lifeline, self._lifeline_end = os.pipe2(os.O_CLOEXEC)  # a pipe without data, closed when the supervisor ends
        words = own_python("-c", code_of("clusterkit.cli"), "agent", "--connect", endpoint, "--key", str(key))
        for number in range(self._count):
            argv = [*words, "--host", f"host{number}", "--lifeline", str(lifeline)]
            self.agents.append(start_agents(argv, self._log, [lifeline]))
        os.close(lifeline)

    def failed(self) -> str | None:
        for number, agent in enumerate(self.agents):
            if (code := agent.poll()) is not None:
                return f"the agent on host{number} ended with code {code} ({last_line(self._log)})"
        return None

    def stop(self) -> None:
        """Wait for the agents, which the supervisor has requested to end, and kill those that do not end."""
        end_all(self.agents, END_WITHIN)
        if self._lifeline_end is not None:
            os.close(self._lifeline_end)
            self._lifeline_end = None


class LocalEngine(Engine):
    """The engine that uses this machine in place of several hosts."""

    def problems(self, job: JobSpec) -> Iterator[str]:
        hosts, interface = job.hosts.count + job.hosts.spare, job.hosts.interface
        if hosts > MOST:
            yield f"{hosts} hosts are requested. This machine stands in for at most {MOST}."
        try:
            if interface is not None:
                address_on(interface)
        except NoInterface as error:
            yield f"--interface: {error}"

    def allocation(self, job: JobSpec, directory: RunDirectory, continues: bool) -> LocalAgents:
        return LocalAgents(job.hosts.count + job.hosts.spare, directory.path / "agents.log")


ENGINE = LocalEngine()
