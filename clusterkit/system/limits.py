"""Explains which resource has run out when a system call fails for want of it, and what to do."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager

from clusterkit.words.errors import OutOfResources


def shortage(error: BaseException) -> str:
    """Return a sentence about the resource that an OSError reports as exhausted; empty for other errors."""
    match error.errno if isinstance(error, OSError) else None:
        case errno.EMFILE:
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            return f"Too many open files: the limit is {limit}. Raise it, for example with: ulimit -n 1024"
        case errno.ENFILE:
            return "Too many files are open on this machine. Close programs."
        case errno.EAGAIN:
            return (
                "No process or thread can be started: the limit of processes is reached. End programs, or raise "
                "`ulimit -u` or the pids limit of the container."
            )
        case errno.ENOMEM:
            return "The memory is used up. Close programs."
    return ""


@contextmanager
def saying_what_is_used_up() -> Iterator[None]:
    """Turn an OSError for want of descriptors, processes or memory into OutOfResources."""
    try:
        yield
    except OSError as error:
        if not (why := shortage(error)):
            raise
        raise OutOfResources(f"The run can't begin. {why}") from None
