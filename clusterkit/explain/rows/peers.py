"""Rows about peers that have ended or do not answer, and the resulting errors of other tasks."""

from __future__ import annotations

from clusterkit.explain.row import Evidence, Row, Words
from clusterkit.text.spelling import listed
from clusterkit.words.model import Shape
from clusterkit.words.outcome import Asked, Exit, RunState


def _ended_with_the_chief(evidence: Evidence) -> Words | None:
    """Check whether the leader of a gang finished, and clusterkit later ended workers that were still running."""
    done, job = evidence.first, evidence.job
    if job is None or job.shape is not Shape.MULTI_WORKER or done.task != job.leader:
        return None
    ends = ((task.task, task.exit) for task in evidence.tasks if task.exit is not None)
    late = [task for task, exit_ in ends if task and task.trains and exit_.asked is Asked.SUCCESS]
    if evidence.state is not RunState.SUCCEEDED or done.exit != Exit(code=0) or not late:
        return None
    return {"late": listed(late)}


ROWS: tuple[Row, ...] = (
    Row(
        "ended-with-the-chief",
        "stopped: the job had succeeded, and a worker still ran when the chief had finished",
        "",
        "{task} finished its program, which ends the job, but {late} still ran 7 s later.",
        "Let the chief finish last. After the code that takes one worker longer, call strategy.reduce('SUM', "
        "tf.ones(1), axis=None) in all workers, which makes them wait for each other.",
        _ended_with_the_chief,
        example=("--workers", "2"),
        facts_only=True,
    ),
    Row(
        "peer-gone",
        "UnavailableError: Collective ops is aborted by: … (stopped sending heartbeats)",
        r"Collective ops is aborted by|stopped sending heartbeats|[Hh]eartbeat timeout|Horovod has been shut down"
        r"|(?:\bUnavailableError: |^\s*\(\d+\) \w+: )[^\n]{0,200}(?:failed to connect to all addresses|OS Error"
        r"|Socket closed|"
        r"Connection reset by peer|Broken pipe|Stream removed)|(?:failed with|processing closure:) UnavailableError\b"
        r"|PSUnavailableError|Unable to find a context_id matching|Unable to find the relevant tensor remote_handle"
        r"|AbortedError: Session \w+ is not found|Timeout waiting for the cluster, timeout is \d+ seconds"
        r"|The corresponding function (?:was cancelled while attempting to recover|is aborted)",
        "Another task failed, was restarted, is frozen, or cannot be reached. The error of {task} is only a "
        "consequence.",
        "Look at the task that the error names or, if the error names no task, at the task whose log ends first. If "
        "no task failed, check that each task runs and that the other tasks can reach its address and port.",
        example=("--workers", "2"),
        general=True,
    ),
    Row(
        "peer-silent",
        "UnavailableError: … connection attempt timed out before receiving SETTINGS frame",
        r"connection attempt timed out before receiving SETTINGS frame[^\n]*\n"
        r"[^\n]*remote target /job:(?P<type>\w+)/replica:\d+/task:(?P<index>\d+)",
        "{type}:{index} accepted a connection but did not answer for 20 s. Its process is stopped (by SIGSTOP, a "
        "debugger or a paused container), or gets no CPU time.",
        "Find out what stopped {type}:{index}, let the process continue with `kill -CONT PID`, and run the job again.",
        over=("peer-gone",),
        example=("--workers", "2", "--ps", "1"),
    ),
    Row(
        "heartbeats-unanswered",
        "DeadlineExceededError: … CoordinationService/Heartbeat",
        "CoordinationService/Heartbeat",
        "{task} sends its heartbeats to worker:0, which does not answer because it is dead, frozen or cut off.",
        "Look at the log of worker:0.",
        over=("peer-gone",),
        example=("--workers", "2"),
        general=True,
    ),
)
