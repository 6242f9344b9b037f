"""Evaluates the machine, its ports and the state directory, in general and for a given job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterkit.doctor.diagnosis import Judged, Rating
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind, number_of

GB, MB = 1 << 30, 1 << 20
THREADS = 120  # the number of threads per task, measured with two workers on 2 cores; each further core adds a few
LEAST_TASKS = 3  # the number of tasks that should fit: a chief, a worker and a ps
LEAST_PORTS = 100  # if fewer ports are free, the user is warned
LEAST_ROOM = GB  # bytes; if less space is free, the user is warned, although a small job needs only tens of megabytes
NO_ROOM = 10 * MB  # bytes; if less space is free, the state directory is unusable


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Facts about cores, memory and limits. Sizes are in bytes. None means unlimited or unknown."""

    cores: int
    memory: int
    free: int
    task_memory: int  # the memory of a task that has imported TensorFlow
    descriptors: int | None  # the number of descriptors that the soft limit leaves for tasks
    descriptors_hard: int | None  # the number of descriptors that the hard limit leaves for tasks
    task_descriptors: int  # the number of descriptors that a task needs
    kernel: str = ""
    missing: tuple[str, ...] = ()  # clauses about missing kernel features
    quota: float | None = None  # the number of cores that the control group allows
    group_memory: int | None = None  # the memory that the control group allows
    group_tasks: int | None = None  # the number of threads that the control group allows
    threads: int | None = None  # the number of threads that this user may have
    threads_now: int = 0  # the number of threads that already count toward `threads`
    gpus: tuple[str, ...] = ()
    why_no_gpu: str | None = None
    gpu_devices: int = 0  # the number of GPU device files


@dataclass(frozen=True, slots=True)
class StateFacts:
    """Facts about the state directory. `problem` is the reason why runs can't use the directory; None if they can.

    `room` is the free space in bytes. `strays` maps each dead run to the number of its remaining processes.
    """

    path: str
    problem: str | None
    room: int
    strays: Mapping[str, int]
    warm_servers: Sequence[str] = ()  # a description of each warm server
    untrusted: str = ""  # sentences that say why the directory is not trusted; empty if it is


@dataclass(frozen=True, slots=True)
class PortFacts:
    """The numbers of all ephemeral ports and of the free ones.

    `problem` is the reason why clusterkit can't hold a port for a task's server; None if it can.
    """

    count: int
    free: int
    problem: str | None = None


def judge_machine(machine: MachineFacts) -> Judged:
    for clause in machine.missing:
        text = f"clusterkit can't supervise processes on this kernel: {clause}. Use a newer kernel, or another sandbox."
        yield "kernel", Rating.WRONG, text
    if not machine.missing:
        yield "kernel", Rating.FINE, f"{machine.kernel} has what clusterkit needs to supervise processes."
    if machine.quota is not None and machine.quota < machine.cores:
        text = f"The control group allows {machine.quota:.1f} of {machine.cores} cores, so TensorFlow starts too many"
        yield "quota", Rating.DOUBT, f"{text} threads. Set TF_NUM_INTRAOP_THREADS, or use --cpus-per-task."
    else:
        yield "cores", Rating.FINE, f"Tasks can use {number_of('core', machine.cores)}."
    yield from _memory(machine)
    yield from _limits(machine)
    if machine.gpus and machine.gpu_devices:
        yield "gpu", Rating.FINE, f"Tasks can use {number_of('GPU', len(machine.gpus))}: {', '.join(machine.gpus)}."
    elif machine.gpu_devices:
        text = f"There is a GPU, but tasks can't use it: {machine.why_no_gpu}. They use the processor."
        yield "gpu-unused", Rating.DOUBT, text
    else:
        yield "gpu", Rating.NOTE, "There is no GPU; TensorFlow uses the processor."


def _memory(machine: MachineFacts) -> Judged:
    room = machine.free if machine.group_memory is None else min(machine.free, machine.group_memory)
    tasks = room // machine.task_memory
    said = f"{machine.free / GB:.1f} GB of memory are free"
    if machine.group_memory is not None and machine.group_memory < machine.memory:
        said += f", and the control group allows {machine.group_memory / GB:.1f} GB in all"
    if tasks < LEAST_TASKS:
        text = f"{said}: too little for a chief, a worker and a ps. Close programs, or raise the limit."
        yield "memory", Rating.DOUBT, text
    else:
        yield "memory", Rating.FINE, f"{said}: about {tasks} TensorFlow tasks fit."


def _limits(machine: MachineFacts) -> Judged:
    tasks = None if machine.descriptors is None else machine.descriptors // machine.task_descriptors
    if tasks is not None and tasks < LEAST_TASKS:
        text = "The limit on descriptors allows no job. Raise it with: ulimit -n 1024"
        yield "descriptors", Rating.WRONG, text
    else:
        text = "There is no limit on descriptors." if tasks is None else f"Descriptors (ulimit -n) for {tasks} tasks."
        yield "descriptors", Rating.FINE, text
    left = _threads_left(machine)
    if left is None:
        yield "threads", Rating.FINE, "There is no limit on threads."
    elif left < LEAST_TASKS * THREADS:
        text = f"{left} more threads are allowed, and a task takes about {THREADS}. Raise ulimit -u, or pids.max"
        yield "threads", Rating.WRONG, f"{text} of the control group."
    else:
        yield "threads", Rating.FINE, f"Threads (ulimit -u, pids.max) for about {left // THREADS} tasks."


def _threads_left(machine: MachineFacts) -> int | None:
    limits = [limit for limit in (machine.threads, machine.group_tasks) if limit is not None]
    return max(0, min(limits) - machine.threads_now) if limits else None


def judge_state(state: StateFacts) -> Judged:
    fix = "Set CLUSTERKIT_HOME to a writable directory with space."
    if state.untrusted:
        yield "state", Rating.WRONG, state.untrusted
    elif state.problem is not None:
        yield "state", Rating.WRONG, f"clusterkit can't keep runs in {state.path}: {state.problem}. {fix}"
    elif state.room < LEAST_ROOM:
        grade = Rating.WRONG if state.room < NO_ROOM else Rating.DOUBT
        yield "state-room", grade, f"{state.room / MB:.0f} MB are free in {state.path}. {fix}"
    else:
        yield "state", Rating.FINE, f"{state.path} is writable, and {state.room / GB:.0f} GB are free."
    for server in state.warm_servers:
        yield "warm-server", Rating.NOTE, f"A warm server is up: {server}. Stop it: clusterkit warm stop"
    if state.strays:
        count, runs = sum(state.strays.values()), ", ".join(sorted(state.strays))
        left = f"{number_of('process', count)} of runs whose supervisor is gone"
        text = f"{left} still {'runs' if count == 1 else 'run'} ({runs}). Run: clusterkit reap"
        yield "strays", Rating.DOUBT, text


def judge_ports(ports: PortFacts) -> Judged:
    if ports.problem is not None:
        text = f"clusterkit can't hold ports for tasks: {ports.problem}. Use --network virtual, or another sandbox."
        yield "ports", Rating.WRONG, text
    elif ports.free < LEAST_PORTS:
        text = f"{ports.free} of {ports.count} ephemeral ports are free. Close programs that use many."
        yield "ports", Rating.DOUBT, text
    else:
        text = f"{ports.free} of {ports.count} ephemeral ports are free, and servers can listen on held ones."
        yield "ports", Rating.FINE, text


def judge_needs(machine: MachineFacts, ports: PortFacts, job: JobSpec) -> Judged:
    tasks = len(job.tasks)
    is_python = job.program.kind is not ProgramKind.COMMAND
    most = min(machine.memory, machine.group_memory or machine.memory)
    if is_python and tasks * machine.task_memory > most:
        text = f"{tasks} TensorFlow tasks don't fit into {most / GB:.1f} GB of memory. Start fewer."
        yield "memory-for-job", Rating.WRONG, text
    hard = machine.descriptors_hard
    if hard is not None and tasks * machine.task_descriptors > hard:
        text = f"{tasks} tasks need more descriptors than this user may have. Start fewer, or have the limit raised."
        yield "descriptors-for-job", Rating.WRONG, text
    left = _threads_left(machine)
    if is_python and left is not None and tasks * THREADS > left:
        text = f"{tasks} tasks need about {tasks * THREADS} threads, and {left} are left (ulimit -u, pids.max)."
        yield "threads-for-job", Rating.WRONG, f"{text} Start fewer, or raise the limit."
    if ports.problem is None and tasks > ports.free:
        text = f"{tasks} tasks need a port each, and {ports.free} are free. Start fewer."
        yield "ports-for-job", Rating.WRONG, text
