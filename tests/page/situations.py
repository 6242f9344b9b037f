"""Histories that end in every situation of a run, with what each reader of it has to say."""

from __future__ import annotations

from collections.abc import Callable

from clusterkit.words import events as ev
from tests.histories import SIGKILL, job, task
from tests.ledger.recovering import Told, gang, ps_job

LATER = 2.0  # seconds after the last event, when everybody looks
ERROR = "ValueError: learning rate must be positive"
LOG = ("Traceback (most recent call last):", '  File "/job/train.py", line 9, in <module>', "    main()", ERROR)


def starting() -> Told:
    """Every task is up, and there is no step."""
    told = Told(job(workers=2))
    told.ready("worker:0", "worker:1")
    return told


def training() -> Told:
    """Five steps in a second."""
    told = gang()
    told.steps("worker:0", 31, 32, 33, 34, 35, every=0.2)
    return told


def measured() -> Told:
    """The worker's runtime has seen its loss."""
    told = training()
    metrics = {"accuracy": 0.9, "loss": 0.5, "auc": None, "precision": 0.25}
    told._observe(ev.Progressed(task("worker:0"), 1, 35, metrics), told.run.now)
    return told


def quiet() -> Told:
    """Nobody has warned of a stall yet."""
    told = training()
    told._observe(ev.Ticked(), told.run.now + 9)
    return told


def stalled() -> Told:
    """No step for 60 s, for which worker:1 is blamed."""
    told = gang()
    told.run.now += 60
    told._observe(ev.Stalled("worker:1 hangs in the kernel (D).", task("worker:1"), 60.0, {}), told.run.now)
    return told


def paused() -> Told:
    """A gang waits for a paused worker."""
    told = gang()
    told._observe(ev.Paused(task("worker:1"), 1, True), told.run.now + 1)
    return told


def paused_aside() -> Told:
    """A coordinator does not wait for one."""
    told = ps_job()
    told._observe(ev.Paused(task("worker:1"), 1, True), told.run.now)
    told.steps("chief:0", 46, 47, 48)
    return told


def recovering() -> Told:
    """A worker raised an exception, and the gang restarts."""
    told = gang()
    told.run.exits("worker:1", code=1, exception=ERROR)
    told.run.after(3)
    return told


def recovered() -> Told:
    """It has made its first new step."""
    told = recovering()
    told.run.after(20)
    for worker in ("worker:0", "worker:1"):
        told.run.resumes(worker, 20, "ckpt-20")
        told.run.progresses(worker, 21)
    told.steps("worker:0", 22, 23)
    return told


def stopping() -> Told:
    """Ctrl-C."""
    told = gang()
    told._observe(ev.Stopping("it got SIGINT", tuple(told.job.tasks), 10.0, interrupted=True), told.run.now)
    return told


def finished() -> Told:
    """The chief has exited with code 0."""
    told = ps_job()
    told.run.exits("chief:0", code=0)
    told.run.after(30)
    return told


def failed() -> Told:
    """The budget is used up, by the same error."""
    told = gang()
    for _ in range(6):
        if not told.run.over:
            told.run.exits("worker:1", code=1, exception=ERROR)
            told.run.after(60)
    return told


def killed() -> Told:
    """A worker was killed with nothing to say, and restarts: no exception."""
    told = gang()
    told.run.exits("worker:1", signal=SIGKILL)
    told.run.after(3)
    return told


def requested() -> Told:
    """The same, by a user."""
    told = gang()
    told._observe(ev.Requested(1, ev.Verb.KILL, (task("worker:1"),)), told.run.now)
    told.run.exits("worker:1", signal=SIGKILL)
    told.run.after(3)
    return told


def alike() -> Told:
    """Both workers raise the same exception, until the budget is used up."""
    told = gang()
    for _ in range(6):
        if not told.run.over:
            told.run.exits("worker:1", code=1, exception=ERROR)
            told.run.exits("worker:0", code=1, exception=ERROR)
            told.run.after(60)
    return told


def lost() -> Told:
    """The supervisor is gone, and nobody wrote a result."""
    return gang()


# Each with whether it is live, its word, and what its sentence has to say.
RUNS: dict[Callable[[], Told], tuple[bool, str, tuple[str, ...]]] = {
    starting: (True, "starting", ("Every task is up; no step has been reported",)),
    training: (True, "training", ("Step 35", "steps/s")),
    measured: (True, "training", ("Step 35", "steps/s, loss 0.5, accuracy 0.9, auc not a number.")),
    quiet: (True, "training", ("Step 35; no step for 11 s",)),
    stalled: (True, "stalled", ("No step for 1 min 2 s", "at step 30", "worker:1 is stuck")),
    paused: (True, "paused", ("worker:1 is paused for 2.0 s", "at step 30", "training waits")),
    paused_aside: (True, "training", ("Step 48", "worker:1 is paused; training continues")),
    recovering: (True, "recovering", (ERROR, "worker:0 and worker:1 restart (attempt 2)", "no new step for")),
    recovered: (True, "training", ("Step 23",)),
    killed: (True, "recovering", ("worker:1 was killed by SIGKILL (attempt 1)", "(attempt 2)")),
    requested: (True, "recovering", ("worker:1 was killed by SIGKILL (attempt 1)", "(attempt 2)")),
    stopping: (True, "stopping", ("The run is ending, at step 30", "worker:0 and worker:1 to end")),
    finished: (False, "succeeded", ("The run succeeded",)),
    failed: (False, "failed", ("The run failed", f"worker:1 failed: {ERROR}")),
    alike: (False, "failed", ("The run failed", ": worker:0 and worker:1 failed with the same ValueError.")),
    lost: (False, "lost", ("its supervisor ended without writing a result",)),
}

# Each with what its reason has to say, what is to be done, and the first command for that.
GUIDANCE: dict[Callable[[], Told], tuple[str, str, str]] = {
    starting: ("", "Nothing: wait", "clusterkit logs --follow r"),
    training: ("", "Nothing. To follow the output:", "clusterkit logs --follow r"),
    measured: ("", "Nothing.", "clusterkit logs --follow r"),
    quiet: ("", "Nothing.", "clusterkit logs --follow r"),
    stalled: (
        "worker:1 hangs in the kernel (D).",
        "Look where worker:1 hangs, then restart worker:1. That restarts worker:0 and worker:1 from ckpt-20; 10 steps "
        "to train again. Nothing restarts by itself: the run has no --stall-timeout.",
        "clusterkit stacks r worker:1",
    ),
    paused: ("stopped by a command", "Let it continue:", "clusterkit unpause r worker:1"),
    paused_aside: ("stopped by a command", "Training continues", "clusterkit unpause r worker:1"),
    recovering: (
        f"worker:1 failed: {ERROR}",
        "restart 1 of 3, from ckpt-20; 10 steps to train again",
        "clusterkit logs r worker:1",
    ),
    recovered: ("1 interruption so far, 10 steps trained again", "Nothing.", "clusterkit logs --follow r"),
    killed: (
        "From outside: neither clusterkit nor, as far as the kernel says, a lack of memory killed worker:1 (SIGKILL).",
        "restart 1 of 3",
        "clusterkit logs r worker:1",
    ),
    requested: ("A user asked for that: `clusterkit kill`", "restart 1 of 3", "clusterkit logs r worker:1"),
    stopping: ("", "wait for the tasks", "clusterkit down --kill r"),
    finished: ("Nothing failed.", "Nothing.", "clusterkit show r"),
    failed: (
        ERROR,
        "Fix the program: a restart fails the same way. Read the log, then resume the run:",
        "clusterkit logs r worker:1",
    ),
    alike: (
        ERROR,
        "Fix the program: a restart fails the same way. Read the log, then resume the run:",
        "clusterkit logs r worker:1",
    ),
    lost: ("supervisor was killed", "Continue it:", "clusterkit up --run-id r --continue"),
}
