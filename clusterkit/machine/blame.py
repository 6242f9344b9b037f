"""Blame: finds the cause among failures that happened together; the others have the same error or are collateral."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterkit.text.lines import CRASH, PEER_GONE, chained_traceback, last_traceback, owner_of
from clusterkit.text.lines import is_own as is_own_file
from clusterkit.text.noise import is_info, without_noise
from clusterkit.words.model import Task
from clusterkit.words.outcome import Asked, Blame, Exit, Failure

# Parts that vary between reports of the same error: addresses, ids, names of temporary files, dates and times.
_VARYING = re.compile(
    r"0x[0-9a-fA-F]+"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b(?=[a-fA-F]*\d)[0-9a-fA-F]{8,}\b"
    r"|(?<=/)tmp\w{8}\b"
    r"|\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?\b"
)
_NUMBERS = re.compile(r"\d+(?:\.\d+)*(?:e[+-]?\d+)?")  # numbers, such as counts, seconds and steps

# TensorFlow's errors if the workers of a gang call different collective operations. The first worker that notices
# the difference raises the error.
_MISMATCH = re.compile(
    r"Shape mismatch in the collective instance|Collective (?:instance|group) \S+ expected |but that group has size"
)

_FRAME = re.compile(r'  File "([^"]*)", line \d+ in .*')
_CRASHES = frozenset({4, 5, 6, 7, 8, 11, 31})  # signals that a program causes by itself
SHELL_SIGNAL_BASE = 128  # a shell exits with this number plus the number of the signal that killed its command
_LAST_SIGNAL = 64


def last_error(failure: Failure) -> str | None:
    """Return the exception that ended the attempt or, without an exception, the last line of the log that is not noise.

    For a crash, the line names the signal and the program's innermost stack frame.
    """
    lines = without_noise(failure.tail)
    for number, line in enumerate(lines):
        if line.startswith(CRASH):
            frames = (frame for frame in map(_FRAME.match, lines[number:]) if frame and not owner_of(frame[1]))
            lines.append(f"{line}{next((frame[0] for frame in frames), '')}")
            break
    return failure.exception or next(reversed(lines), None)


def was_killed(exit_: Exit) -> bool:
    """Return whether a signal from another process ended the attempt, or the command run by the attempt's shell."""
    signal = exit_.signal if exit_.code is None else exit_.code - SHELL_SIGNAL_BASE
    return signal is not None and 0 < signal <= _LAST_SIGNAL and signal not in _CRASHES


def is_mismatch(failure: Failure) -> bool:
    """Return whether the attempt failed because the workers' collective operations do not match."""
    return any(_MISMATCH.search(line) for line in (failure.exception or "", *failure.tail))


def error_signature(failure: Failure, numbers: bool = False) -> str | None:
    """Return a text that similar failures share; None if the attempt was ended from outside or logged no error.

    If the task was killed because it had stalled, the text does not depend on the log. If `numbers` is False,
    numbers in the error are ignored. Pass True if nothing else shows how far the attempt got.
    """
    exit_, error = failure.exit, last_error(failure)
    if exit_.asked is Asked.STALL:
        return f"{failure.task} {exit_}"
    if exit_.ok:
        return str(exit_)  # the last output of a successful attempt is not an error
    if error is None or exit_.asked is not None or exit_.error is not None or exit_.host is not None:
        return None
    if exit_.preempted or was_killed(exit_):
        return None
    if is_mismatch(failure):
        return "the workers' collectives do not match"
    error = _VARYING.sub("#", error)
    return f"{exit_}: {error if numbers else _NUMBERS.sub('#', error)}"


SIGABRT = 6

_FROM_PEER = re.compile(f"{PEER_GONE.pattern}|grpc_status|GRPC error")  # for the log lines before the last exception


def looks_collateral(failure: Failure) -> bool:
    """Return whether the attempt could not reach a peer, or failed like a TensorFlow task whose peer is gone."""
    if failure.exit.unreached:
        return True
    if is_mismatch(failure) or failure.exit.ok:
        return False
    if failure.exit.signal is not None:
        return failure.exit.signal == SIGABRT
    if failure.exit.code is None or failure.exit.preempted:  # the attempt could not start, or was lost with its host
        return False
    if failure.exception is not None:
        return PEER_GONE.search(failure.exception) is not None
    return any(PEER_GONE.search(line) for line in failure.tail if not is_info(line))


def is_own_failure(failure: Failure) -> bool:
    """Return whether the attempt failed on its own: neither a peer nor a signal explains the failure."""
    exit_ = failure.exit
    if was_killed(exit_) or exit_.preempted or (exit_.code is None and exit_.signal is None):
        return False
    if is_mismatch(failure):
        return True
    errors = (line for line in failure.tail if not is_info(line))
    return not looks_collateral(failure) and not any(map(_FROM_PEER.search, errors))


def blame(failures: Sequence[Failure]) -> Blame:
    """Find the cause of failures that happened together; `same` and `collateral` are in chronological order.

    The cause is the first failure that does not look collateral. It need not be the first exit: peers may notice a
    program's exception, and exit, before that program has exited. Tasks that run the same program may raise the same
    exception; then none of them is collateral. A task that exited with code 0 is the cause only if all other failures
    look collateral.
    """
    by_time = sorted(failures, key=lambda failure: failure.at)
    own_failures = sorted((one for one in by_time if not looks_collateral(one)), key=lambda failure: failure.exit.ok)
    cause = next(iter(own_failures), by_time[0])
    others = [failure for failure in by_time if failure is not cause]
    error = None if looks_collateral(cause) else error_signature(cause)
    same_error = [error is not None and error_signature(failure) == error for failure in others]
    same = tuple(failure for failure, is_own in zip(others, same_error, strict=True) if is_own)
    return Blame(cause, same, tuple(failure for failure, is_own in zip(others, same_error, strict=True) if not is_own))


SILENT_LIFETIME = 120.0  # seconds; an attempt that lived longer may have completed steps that no task reported

# Errors with a cause outside the program, which may not occur in the next attempt.
_TRANSIENT = re.compile(
    r"MemoryError|ResourceExhaustedError|TimeoutError|BrokenPipeError|Connection\w*Error"
    r"|No space left on device|Disk quota exceeded|Cannot allocate memory|Too many open files"
    r"|Resource temporarily unavailable|Address already in use|Temporary failure in name resolution"
    r"|incarnation|context_id"  # words in TensorFlow's errors about a peer that has restarted
)

# Failed memory allocations. If the next attempt fails to allocate the same amount, every attempt will.
_NO_MEMORY = re.compile(r"Unable to allocate \S+ \w+ for an array with shape |OOM when allocating tensor with shape")

# Errors in the program's source or in the installation, so the next attempt would fail, too.
_PROGRAM_ERROR = re.compile(
    r"(?:NameError|UnboundLocalError|ImportError|ModuleNotFoundError|SyntaxError|IndentationError|TabError): "
    r"|AttributeError: (?:partially initialized )?(?:module|type object) '"
    r"|TypeError: .*(?: got an unexpected keyword argument | missing \d+ required | positional arguments? but )"
)
# Errors about a path that another task may still create: often the leader creates files for its peers.
_PATH_ERROR = re.compile(
    r"(?:FileNotFoundError|NotADirectoryError|IsADirectoryError|PermissionError|ValueError: File not found): "
    r"|[\w.]*\.NotFoundError: .*; No such file or directory"
)
_OBJECT_ERROR = re.compile(r"AttributeError: '(?!NoneType')[^']+' object has no attribute ")
_RAISED = re.compile(r' *File "([^"]*)", line \d+')
_USAGE_EXIT_CODE = 2  # the exit code of argparse, click and most commands for wrong arguments
# The line that tells how to call a command: its name, and options or placeholders, if any. `Usage: 93% of GPU memory`
# is not such a line.
_USAGE = re.compile(
    r"(?:usage|Usage|USAGE): +(?:python[\d.]* +(?:-m +)?)?[A-Za-z_~./][\w./~+-]*"
    r"(?: *$| +(?=.*(?:[\[<{]|\.\.\.|(?<=\s)--?[A-Za-z]|(?<!\d )\b[A-Z][A-Z_]+\b)))"
)


def is_usage_error(blamed: Blame, leader: Task) -> bool:
    """Return whether the failure is due to a wrong program, argument or path, so a restart would fail, too.

    A missing file counts only if the leader misses it, too: otherwise the leader may be about to write it.
    """
    cause = blamed.cause
    error = cause.exception or ""
    if cause.exit.ok or not is_own_failure(cause) or _TRANSIENT.search(error):
        return False
    if cause.exit.code == _USAGE_EXIT_CODE and any(map(_USAGE.match, cause.tail)):
        return True
    by_leader = any(failure.task == leader for failure in (cause, *blamed.same))
    return bool(_PROGRAM_ERROR.match(error) or (by_leader and _PATH_ERROR.match(error)))


def is_bug(failure: Failure) -> bool:
    """Return whether a bug in the program's source ended the task: a line of the program raised a typical error."""
    frames = [frame[1] for frame in map(_RAISED.match, failure.tail[last_traceback(failure.tail) or 0 :]) if frame]
    error, chain = failure.exception or "", failure.tail[chained_traceback(failure.tail) or 0 :]
    if not frames or not is_own_file(frames[-1]) or not is_own_failure(failure) or failure.exit.code != 1:
        return False
    if any(map(_TRANSIENT.search, chain)):
        return False
    return bool(_PROGRAM_ERROR.match(error) or _OBJECT_ERROR.match(error))


def repeats(previous: Failure | None, failure: Failure, numbers: bool = False) -> bool:
    """Return whether two consecutive attempts failed in the same way, and only the program can be the reason.

    If `numbers` is True, the numbers in the errors have to be equal, too. Pass True if nothing else shows how far the
    attempts got. Numbers in errors about failed memory allocations always have to be equal.
    """
    if previous is None or failure.attempt != previous.attempt + 1 or looks_collateral(failure):
        return False
    message = last_error(failure) or ""
    is_amount = _NO_MEMORY.search(message) is not None
    if not is_amount and failure.exit.asked is not Asked.STALL and _TRANSIENT.search(message):
        return False
    error = error_signature(failure, numbers or is_amount)
    return error is not None and error == error_signature(previous, numbers or is_amount)
