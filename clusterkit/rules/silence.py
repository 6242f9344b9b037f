"""Silence: what to say where something waits for steps and no task reports any."""

from __future__ import annotations

from collections.abc import Sequence

from clusterkit.words.model import JobSpec


def silence(job: JobSpec, waiting: Sequence[str], seconds: float) -> str:
    """The warning. `waiting` are the options and faults that do nothing without steps, `seconds` how long it was."""
    names, verb = " and ".join(waiting), "have" if len(waiting) > 1 else "has"
    return (
        f"No task has reported a step, {seconds:g} s after all of them started. Until one does, {names} {verb} "
        f"no effect. {advice(job)}"
    )


def advice(job: JobSpec) -> str:
    """How a program gets to report its steps."""
    report = "clusterkit.training.report(step=…) or, in Keras, the callback clusterkit.training.ReportProgress()"
    if job.progress_regex is not None:
        return f"No line in the logs matched --progress-regex '{job.progress_regex}'. Change it, or call {report}."
    return f"Call {report}, or have steps read from the logs: --progress-regex 'step (\\d+)'."
