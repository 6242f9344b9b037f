"""The backend for hosts: sends orders to the agent on each task's host, and receives the agents' events."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from clusterkit.backends.hosts.allocation import LOOK_EVERY, Allocation, query_ending
from clusterkit.backends.hosts.fitness import SharedDirectories
from clusterkit.backends.hosts.hosts import CombinedAnswers, Host, Hosts
from clusterkit.backends.hosts.incoming import CollectedFiles, IncomingMessages, joined_reports
from clusterkit.backends.hosts.placements import PendingStarts
from clusterkit.backends.link import messages as ms
from clusterkit.backends.link.certificate import write_certificate
from clusterkit.backends.link.connection import Connection
from clusterkit.backends.link.listener import Listener
from clusterkit.backends.link.session import message_text
from clusterkit.backends.local.logs import Viewer
from clusterkit.store.directory import RunDirectory
from clusterkit.system.inbox import Inbox
from clusterkit.text.endpoints import endpoint_of, host_in
from clusterkit.words import actions as ac
from clusterkit.words import events as ev
from clusterkit.words.errors import NoHosts
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task, number_of
from clusterkit.words.outcome import signal_name

GONE_WITHIN = 15.0  # seconds; how long to wait for the agents to end all processes when the run is over
REPORTED_DELAY = 0.5  # seconds; report a host that sees the supervisor's new files later than this


class AgentsBackend:
    """Runs tasks on an engine's hosts. Call its methods in the loop's thread."""

    def __init__(self, job: JobSpec, seed: int, inbox: Inbox, viewer: Viewer, allocation: Allocation) -> None:
        self._job, self._seed, self._inbox, self._viewer = job, seed, inbox, viewer
        self._allocation = allocation
        self._hosts = Hosts()
        self._pending_starts = PendingStarts(job, self._hosts, allocation, self._send, inbox.put)
        self._placements = self._pending_starts.placements
        self._answers = CombinedAnswers(inbox.put, joined_reports)
        self._unended: set[Host] = set()  # hosts that have not confirmed the end of the run
        self._is_final = True
        self._stack = ExitStack()

    def place(self, directory: RunDirectory) -> Mapping[Task, str]:
        """Start the agents, wait for them, and place the tasks; return the tasks' endpoints. Raises NoHosts."""
        request, on_shut = self._job.hosts, self._stack.callback
        self._directory = directory
        self._collected = CollectedFiles(directory, self._inbox.put, self._viewer)
        on_shut(self._collected.stop)
        key = directory.agents_key if request.key is None else Path(request.key)
        if request.key is None:
            write_certificate(key, directory.run_id)
        listen = request.listen or self._allocation.address
        incoming = IncomingMessages(self._hosts.grants, self._inbox.put, self._collected, self)
        self._listener = Listener(key, listen, request.timeout, self._inbox.put, incoming)
        on_shut(self._listener.stop)
        on_shut(self._allocation.stop)
        on_shut(self._end_agents)
        on_shut(self._pending_starts.stop)
        for task in self._job.tasks:
            directory.of_task(task).mkdir(mode=0o700, exist_ok=True)
        self._shared = SharedDirectories((directory.path, directory.checkpoints))
        on_shut(self._shared.clear)
        self._allocation.start(endpoint_of(host_in(listen), self._listener.port), key)
        self._wait_for_hosts(lambda: self._hosts.ready_count >= request.count + request.spare)
        self._hosts.sort()
        self._placements.begin()
        self._wait_for_hosts(lambda: self._placements.is_settled)
        return self._placements.endpoints

    def do(self, order: ac.Order) -> None:
        match order:
            case ac.Spawn():
                self._pending_starts.spawn(order)
            case ac.Signal(task, attempt) if self._pending_starts.withdraw(task, attempt):
                pass  # the attempt had not been started yet
            case ac.Signal(task, attempt) | ac.CloseOutput(task, attempt):
                self._to_attempt(order, task, attempt)
            case ac.Sweep(task, attempt):
                if not self._to_attempt(order, task, attempt):
                    self._inbox.put(ev.Swept(task, attempt))  # the host is lost, so its processes have ended
            case ac.Inspect(look):
                inspected = [host for host in self._hosts.ready if host.running and not host.is_cut]
                self._send(inspected, order)
                self._answers.expect_inspection(look, inspected)
            case ac.Inject(number):
                self._answers.expect_injection(number, self._split(order))
            case ac.BeginProfile() | ac.EndProfile():
                self._split(order)
            case ac.DumpStacks() | ac.Heal() | ac.HurrySteps() | ac.Refresh():
                self._send(self._hosts.ready, order)
            case ac.Avoid(names):
                self._placements.avoid(names)
            case _:
                assert_never(order)

    def suspend(self) -> None:
        self._is_final = False

    def shut(self) -> None:
        """Stop every part of the backend, even if stopping another part raises an exception."""
        self._stack.close()

    # Callbacks of IncomingMessages, for agents' messages and connections.

    def agent_connected(self, connection: Connection, name: str) -> None:
        """Open the run on the host of a new agent. Refuse the agent if another live agent has the same name."""
        if (previous := self._hosts.by_name(name)) is not None:
            if not previous.is_cut:  # the first agent is alive, so a second agent would start the tasks twice
                self._inbox.put(ev.Noted(f"A second agent with the name {name} was turned away."))
                connection.close(f"The run has an agent with the name {name} already. Choose another one with --host.")
                return
            self._lose(previous, "Its agent was started anew.")
        host = Host(name, connection)
        self._hosts.add(host)
        run, token, seed = self._directory, self._shared.token, self._seed
        order = ms.Open(run.run_id, str(run.path), str(run.checkpoints), str(Path.cwd()), token, seed, self._job)
        self._send([host], order)

    def received(self, connection: Connection, message: ms.FromAgent) -> None:
        if (host := self._hosts.by_connection(connection)) is None:
            return  # the host is already recorded as lost
        host.track(message)
        match message:
            case ms.Opened():
                self._opened(host, message)
            case ms.Claimed():
                self._placements.claimed(host, message)
            case ms.Gone():
                self._unended.discard(host)
            case ms.SignalReceived(signal):
                query_ending(
                    self._allocation, signal, lambda alone: self._signalled(host, signal, alone), self._inbox.put
                )
            case ev.Inspected():
                self._answers.add_inspection(host, message, self._report_of(host, message.report))
            case ev.FaultTook():
                self._answers.add_injection(host, message)
            case ev.Drained():
                self._collected.attempt_drained(message)
                self._stop_leaving_agent(host)
            case ev.Crashed(where):
                self._inbox.put(replace(message, where=f"{where} of the agent on {host.name}"))
            case ev.SpawnFailed(error=error, unfit=True):
                self._inbox.put(replace(message, error=f"on {host.name}, {error}"))
                self._stop_leaving_agent(host)
            case ev.Spawned(where=where):
                self._inbox.put(replace(message, where=f"{host.name}, {where}"))
            case ev.StorageFailed(error):
                self._inbox.put(ev.StorageFailed(f"on {host.name}, {error}"))
            case ms.Output() | ms.Written() | ms.Used():
                pass  # handled by IncomingMessages
            case _:
                self._inbox.put(message)
                self._stop_leaving_agent(host)

    def _signalled(self, host: Host, signal: int, host_only: bool) -> None:
        """Drain the host of an agent that was signalled to end, unless the signal concerns the whole run."""
        if host.is_lost:
            return
        if not host_only:
            self._send([host], ms.KeepRunning())
            return
        self._hosts.mark_leaving(host)
        self._placements.host_leaves(host)
        self._send([host], ms.Drain())
        self._inbox.put(ev.HostDraining(host.name, f"its agent got {signal_name(signal)}"))
        self._stop_leaving_agent(host)

    def _stop_leaving_agent(self, host: Host) -> None:
        """Stop the agent of a leaving host once the host has no attempts."""
        if host.is_leaving and not host.attempts:
            self._send([host], ms.StopAgent())

    def _opened(self, host: Host, message: ms.Opened) -> None:
        self._pending_starts.problems += [f"{host.name}: {problem}" for problem in message.problems]
        if not message.problems:
            self._hosts.mark_ready(host, message.address)
            if self._placements.placed:
                self._inbox.put(ev.HostJoined(host.name))
            self._pending_starts.host_joined()
        if message.delay >= REPORTED_DELAY:
            self._inbox.put(ev.Noted(f"The host {host.name} sees new files after {message.delay:.1f} s."))

    def connection_cut(self, connection: Connection, why: str) -> None:
        if (host := self._hosts.by_connection(connection)) is not None:
            host.is_cut = True
            self._inbox.put(ev.HostCut(host.name, why, self._job.hosts.timeout))
            self._answers.host_cut()

    def connection_resumed(self, connection: Connection) -> None:
        if (host := self._hosts.by_connection(connection)) is not None:
            host.is_cut = False
            self._inbox.put(ev.HostBack(host.name))

    def connection_lost(self, connection: Connection, why: str) -> None:
        if (host := self._hosts.by_connection(connection)) is not None:
            self._lose(host, why)

    def _lose(self, host: Host, why: str) -> None:
        """Record the loss of a host: post the last events of its attempts, end their logs, place its tasks again."""
        self._hosts.mark_lost(host)
        host.connection.close(why)  # an agent that reconnects later is refused, and ends its tasks
        self._unended.discard(host)
        self._answers.host_lost(host)
        for event in host.last_events():
            self._inbox.put(event)
        for (task, number), seen in sorted(host.attempts.items()):
            if ev.Spawned in seen and ev.Drained not in seen:
                self._collected.host_lost(task, number)
        self._inbox.put(ev.HostLost(host.name, why, host.is_leaving))
        self._placements.host_lost(host)

    def _to_attempt(self, order: ac.Order, task: Task, attempt: int) -> bool:
        if (host := self._hosts.of_attempt(task, attempt)) is not None:
            self._send([host], order)
        return host is not None

    def _split(self, order: ac.Inject | ac.BeginProfile | ac.EndProfile) -> list[Host]:
        """Send each host its tasks' part of an order (without tasks, send it to the first host); return these hosts."""
        by_host: dict[Host, list[Task]] = {} if order.tasks else {host: [] for host in self._hosts.ready[:1]}
        for task in order.tasks:
            if (host := self._placements.placed.get(task)) is not None and host.ready:
                by_host.setdefault(host, []).append(task)
        for host, tasks in by_host.items():
            self._send([host], replace(order, tasks=tuple(tasks)))
        return list(by_host)

    def _send(self, hosts: Iterable[Host], message: ms.ToAgent) -> None:
        text = message_text(ms.encode(message), b"")
        for host in hosts:
            host.connection.send_text(text)

    def _report_of(self, host: Host, report: str | None) -> str | None:
        name = None if report is None else f"stacks/{Path(report).name}"
        return name and str(self._directory.path / self._collected.name_of(host.name, name))

    def _wait_for_hosts(self, done: Callable[[], bool]) -> None:
        """Wait until `done` returns true. Raises NoHosts if there are problems, or after the startup deadline."""
        limit, problems = self._job.limits.startup or math.inf, self._pending_starts.problems
        until = time.monotonic() + limit
        while not done() and not problems and time.monotonic() < until:
            if (why := self._allocation.failed()) is not None:
                problems.append(why)
            if not self._inbox.work_until(lambda: done() or bool(problems), LOOK_EVERY) and self._inbox.is_ending:
                problems.append("the run was asked to end while it waited for its hosts")
        if not done():
            hosts = number_of("host", self._job.hosts.count + self._job.hosts.spare)
            why = "; ".join(problems) or f"the others did not join within {limit:g} s"
            raise NoHosts(f"{self._hosts.ready_count} of {hosts} were ready: {why.rstrip('.')}.")

    def _end_agents(self) -> None:
        """Have the connected agents end all processes of the run, and wait for their confirmation."""
        self._unended = {host for host in self._hosts.present if not host.is_cut}
        self._send(self._unended, ms.Shut(self._is_final))
        self._inbox.work_until(lambda: not self._unended, GONE_WITHIN, True)
        for host in self._hosts.present:
            host.connection.close("The run is over.")
