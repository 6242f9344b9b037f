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
        "{task} finished its program, which ends the job, and {late} still ran 7 s later.",
        "Let the chief finish last: after what takes one worker longer, call strategy.reduce('SUM', tf.ones(1), "
        "axis=None) in all of them, which waits for all.",
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
        "Another task has failed, was restarted, is frozen, or cannot be reached: the error of {task} is only the "
        "consequence.",
        "Look at the task that is named here, or else at the one whose log ends first; if none failed, check that each "
        "runs and that its address and port are open to the others.",
        example=("--workers", "2"),
        general=True,
    ),
    Row(
        "peer-silent",
        "UnavailableError: … connection attempt timed out before receiving SETTINGS frame",
        r"connection attempt timed out before receiving SETTINGS frame[^\n]*\n"
        r"[^\n]*remote target /job:(?P<type>\w+)/replica:\d+/task:(?P<index>\d+)",
        "{type}:{index} accepted a connection and then did not answer for 20 s: its process is stopped (by SIGSTOP, a "
        "debugger or a paused container), or gets no CPU time.",
        "Find out what stopped {type}:{index}, let the process continue with `kill -CONT PID`, and run the job again.",
        over=("peer-gone",),
        example=("--workers", "2", "--ps", "1"),
    ),
    Row(
        "heartbeats-unanswered",
        "DeadlineExceededError: … CoordinationService/Heartbeat",
        "CoordinationService/Heartbeat",
        "worker:0, to which {task} sends its heartbeats, does not answer: it is dead, frozen or cut off.",
        "Look at the log of worker:0.",
        over=("peer-gone",),
        example=("--workers", "2"),
        general=True,
    ),
)
