"""What the machine has, against what tasks need; and the place where runs are kept."""

from __future__ import annotations

from collections.abc import Iterator

from clusterkit.words.doctor import Facts, Finding, Grade, Machine, Place, Ports, Topic
from clusterkit.words.model import JobSpec, ProgramKind

GB, MB = 1 << 30, 1 << 20
THREADS = 120  # of a task that trains with another one; each core more takes a few more. Measured on 2 cores
LEAST_TASKS = 3  # for which there should be room: a chief, a worker and a ps
LEAST_PORTS = 100
LEAST_ROOM = GB  # checkpoints and logs of a small job take some tens of megabytes
NO_ROOM = 10 * MB
LITTLE_SHARED = 512 * MB


def judge(facts: Facts) -> Iterator[Finding]:
    """What there is to say without a job in mind."""
    machine = facts.machine
    yield from _kernel(machine)
    yield from _cores(machine)
    yield from _memory(machine)
    yield from _limits(machine)
    yield from _gpus(facts)
    yield from _ports(facts.ports)


def judge_place(place: Place) -> Iterator[Finding]:
    """What there is to say of the state directory."""
    fix = "Set CLUSTERKIT_HOME to a directory that can be written and has room."
    if place.problem is not None:
        yield _state("state", Grade.WRONG, f"Runs can't be kept in {place.path}: {place.problem}. {fix}")
    elif place.room < LEAST_ROOM:
        grade = Grade.WRONG if place.room < NO_ROOM else Grade.DOUBT
        yield _state("state-room", grade, f"There are {place.room / MB:.0f} MB of room in {place.path}. {fix}")
    else:
        yield _state("state", Grade.FINE, f"{place.path} can be written and has {place.room / GB:.0f} GB of room.")
    if place.socket > place.socket_most:
        text = f"{place.path} is too long a path for the socket of `clusterkit warm`; runs have theirs elsewhere."
        yield _state("state-path", Grade.DOUBT, f"{text} Set CLUSTERKIT_HOME to a shorter one.")
    if place.temporary_problem is not None:
        text = f"There is no temporary directory: {place.temporary_problem}. Set TMPDIR to one that can be written."
        yield _state("temporary", Grade.WRONG, text)
    if place.strays:
        count, runs = sum(place.strays.values()), ", ".join(sorted(place.strays))
        text = f"{count} process(es) are left of runs whose supervisor is gone ({runs}). Run: clusterkit reap"
        yield _state("strays", Grade.DOUBT, text)
    if place.live:
        runs = "1 run is" if place.live == 1 else f"{place.live} runs are"
        yield _state("live", Grade.NOTE, f"{runs} live and take part of what there is. See: clusterkit ls")


def judge_job(facts: Facts, job: JobSpec) -> Iterator[Finding]:
    """What the job needs, against what there is: what `up` would warn of, and what can't go well at all."""
    machine, tasks = facts.machine, len(job.tasks)
    is_python = job.program.kind is not ProgramKind.COMMAND
    found = [_job("shortage", Grade.DOUBT, text) for text in facts.shortages]
    most = min(machine.memory, machine.group_memory or machine.memory)
    if is_python and tasks * machine.task_memory > most:
        text = f"{tasks} TensorFlow tasks don't fit into the {most / GB:.1f} GB of memory that there are. Start fewer."
        found.append(_job("memory-for-job", Grade.WRONG, text))
    hard = machine.descriptors_hard
    if hard is not None and tasks * machine.task_descriptors > hard:
        text = f"{tasks} tasks take more descriptors than this user may have. Start fewer, or have the limit raised."
        found.append(_job("descriptors-for-job", Grade.WRONG, text))
    left = _threads_left(machine)
    if is_python and left is not None and tasks * THREADS > left:
        text = f"{tasks} tasks take about {tasks * THREADS} threads, and {left} are left (ulimit -u, pids.max)."
        found.append(_job("threads-for-job", Grade.WRONG, f"{text} Start fewer, or raise the limit."))
    if facts.ports.problem is None and tasks > facts.ports.free:
        text = f"{tasks} tasks need a port each, and {facts.ports.free} are free. Start fewer."
        found.append(_job("ports-for-job", Grade.WRONG, text))
    found += [_job("lacking", Grade.WRONG, text) for text in facts.lacking]
    if not found:
        kinds = ", ".join(f"{count} {kind}" for kind, count in job.counts.items() if count)
        found = [_job("job", Grade.FINE, f"There is enough for {kinds} ({job.shape.value}).")]
    yield from found


def _machine(name: str, grade: Grade, text: str) -> Finding:
    return Finding(Topic.MACHINE, name, grade, text)


def _state(name: str, grade: Grade, text: str) -> Finding:
    return Finding(Topic.STATE, name, grade, text)


def _job(name: str, grade: Grade, text: str) -> Finding:
    return Finding(Topic.JOB, name, grade, text)


def _kernel(machine: Machine) -> Iterator[Finding]:
    for clause in machine.missing:
        text = f"clusterkit can't look after processes here: {clause}. Use a newer kernel, or another sandbox."
        yield _machine("kernel", Grade.WRONG, text)
    if not machine.missing:
        yield _machine("kernel", Grade.FINE, f"{machine.kernel} has what supervising processes takes.")
    if not machine.kernel_log:
        text = "The kernel's log can't be read, so of tasks that SIGKILL ends while the kernel kills for want of memory"
        yield _machine("kernel-log", Grade.NOTE, f"{text} each is taken to be its victim.")


def _cores(machine: Machine) -> Iterator[Finding]:
    if machine.has_avx is False:
        text = "The processor has no AVX, and TensorFlow's wheels end with an illegal instruction. Use a build without."
        yield _machine("avx", Grade.WRONG, text)
    if machine.quota is not None and machine.quota < machine.cores:
        text = f"The control group allows {machine.quota:.1f} of {machine.cores} cores, so TensorFlow starts too many"
        yield _machine("quota", Grade.DOUBT, f"{text} threads. Set TF_NUM_INTRAOP_THREADS, or use --cpus-per-task.")
    else:
        yield _machine("cores", Grade.FINE, f"{machine.cores} cores can be used.")


def _memory(machine: Machine) -> Iterator[Finding]:
    room = machine.free if machine.group_memory is None else min(machine.free, machine.group_memory)
    tasks = room // machine.task_memory
    said = f"{machine.free / GB:.1f} GB of memory are free"
    if machine.group_memory is not None and machine.group_memory < machine.memory:
        said += f", and the control group allows {machine.group_memory / GB:.1f} GB in all"
    if tasks < LEAST_TASKS:
        text = f"{said}: too little for a chief, a worker and a ps. Close programs, or raise the limit."
        yield _machine("memory", Grade.DOUBT, text)
    else:
        yield _machine("memory", Grade.FINE, f"{said}: about {tasks} TensorFlow tasks fit.")


def _limits(machine: Machine) -> Iterator[Finding]:
    tasks = None if machine.descriptors is None else machine.descriptors // machine.task_descriptors
    if tasks is not None and tasks < LEAST_TASKS:
        text = "The limit on descriptors allows no job. Raise it with: ulimit -n 1024"
        yield _machine("descriptors", Grade.WRONG, text)
    else:
        text = "There is no limit on descriptors." if tasks is None else f"Descriptors (ulimit -n) for {tasks} tasks."
        yield _machine("descriptors", Grade.FINE, text)
    left = _threads_left(machine)
    if left is None:
        yield _machine("threads", Grade.FINE, "There is no limit on threads.")
    elif left < LEAST_TASKS * THREADS:
        text = f"{left} more threads are allowed, and a task takes about {THREADS}. Raise ulimit -u, or pids.max"
        yield _machine("threads", Grade.WRONG, f"{text} of the control group.")
    else:
        yield _machine("threads", Grade.FINE, f"Threads (ulimit -u, pids.max) for about {left // THREADS} tasks.")


def _threads_left(machine: Machine) -> int | None:
    limits = [limit for limit in (machine.threads, machine.group_tasks) if limit is not None]
    return max(0, min(limits) - machine.threads_now) if limits else None


def _gpus(facts: Facts) -> Iterator[Finding]:
    machine = facts.machine
    if machine.gpus and machine.gpu_devices:
        yield _machine("gpu", Grade.FINE, f"Tasks can use {len(machine.gpus)} GPU(s): {', '.join(machine.gpus)}.")
        yield from _gpu_packages(facts)
    elif machine.gpus:
        text = f"CUDA_VISIBLE_DEVICES names {', '.join(machine.gpus)}, and the system shows no GPU. Unset it."
        yield _machine("gpu-named", Grade.DOUBT, text)
    elif machine.gpu_devices:
        text = f"There is a GPU, and it can't be used: {machine.why_no_gpu}. Until that is mended, the processor is."
        yield _machine("gpu-unused", Grade.DOUBT, text)
    else:
        yield _machine("gpu", Grade.NOTE, "There is no GPU; TensorFlow uses the processor.")
    little = machine.shared_memory is None or machine.shared_memory < LITTLE_SHARED
    if little and len(machine.gpus) > 1:
        size = "missing" if machine.shared_memory is None else f"{machine.shared_memory / MB:.0f} MB large"
        text = f"/dev/shm is {size}, and NCCL passes data between GPUs there. Make it larger (docker: --shm-size 2g)."
        yield _machine("shared-memory", Grade.DOUBT, text)


def _gpu_packages(facts: Facts) -> Iterator[Finding]:
    for python in facts.interpreters:
        cpu_only = [name for name in ("tensorflow-cpu", "tf-nightly-cpu") if name in python.packages]
        if cpu_only:
            text = f"{cpu_only[0]} of {python.path} uses no GPU. Install tensorflow[and-cuda] in its place."
            yield _machine("gpu-cpu-only", Grade.DOUBT, text)


def _ports(ports: Ports) -> Iterator[Finding]:
    if ports.problem is not None:
        text = f"Ports can't be held for tasks: {ports.problem}. Use --network virtual, or another sandbox."
        yield _machine("ports", Grade.WRONG, text)
    elif ports.free < LEAST_PORTS:
        text = f"{ports.free} of {ports.count} ephemeral ports are free. Close programs that use many."
        yield _machine("ports", Grade.DOUBT, text)
    else:
        text = f"{ports.free} of {ports.count} ephemeral ports are free, and held ones can be joined by a server."
        yield _machine("ports", Grade.FINE, text)
