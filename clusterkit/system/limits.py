"""What this process or machine has run out of, as a sentence that says what to do about it."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager

from clusterkit.words.errors import OutOfResources


def shortage(error: BaseException) -> str:
    """Say what an OSError reports to be used up; empty if it is another error."""
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
    """Raise OutOfResources in place of an OSError for want of descriptors, processes or memory."""
    try:
        yield
    except OSError as error:
        if not (why := shortage(error)):
            raise
        raise OutOfResources(f"The run can't begin. {why}") from None
