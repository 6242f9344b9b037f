"""Blame: which of several failures is the cause, which are collateral, and which have the same error."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterkit.text.frames import owner_of
from clusterkit.text.lines import CRASH, PEER_GONE
from clusterkit.text.noise import NoiseFilter, is_info
from clusterkit.words.model import Task
from clusterkit.words.outcome import Asked, Blame, Exit, Failure

# What differs between two reports of the same error: addresses, ids, names of temporary files, dates and times.
_VARYING = re.compile(
    r"0x[0-9a-fA-F]+"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b(?=[a-fA-F]*\d)[0-9a-fA-F]{8,}\b"
    r"|(?<=/)tmp\w{8}\b"
    r"|\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?\b"
)
_NUMBERS = re.compile(r"\d+(?:\.\d+)*(?:e[+-]?\d+)?")  # counts, seconds, steps

# TensorFlow's errors when the workers of a gang make different calls. Whichever of them notices first raises it.
_MISMATCH = re.compile(
    r"Shape mismatch in the collective instance|Collective (?:instance|group) \S+ expected |but that group has size"
)

_FRAME = re.compile(r'  File "([^"]*)", line \d+ in .*')
_CRASHES = frozenset({4, 5, 6, 7, 8, 11, 31})  # signals that a program causes itself; others are sent to it
SHELL = 128  # a shell exits with this plus the number of the signal that killed its command
_LAST_SIGNAL = 64


def last_error(failure: Failure) -> str | None:
    """The exception that ended the attempt; without one, the last line of its log that is not TensorFlow's noise.

    Of a crash, that is the signal's name with the innermost line of the program.
    """
    noise = NoiseFilter()
    own = [line for line in failure.tail if not noise.is_noise(line)]
    for number, line in enumerate(own):
        if line.startswith(CRASH):
            frames = (frame for frame in map(_FRAME.match, own[number:]) if frame and not owner_of(frame[1]))
            own.append(f"{line}{next((frame[0] for frame in frames), '')}")
            break
    return failure.exception or next(reversed(own), None)


def was_killed(exit_: Exit) -> bool:
    """Whether a signal from another process ended the attempt, or the command that its shell ran."""
    signal = exit_.signal if exit_.code is None else exit_.code - SHELL
    return signal is not None and 0 < signal <= _LAST_SIGNAL and signal not in _CRASHES


def is_mismatch(failure: Failure) -> bool:
    """Whether the attempt failed because the workers' collective operations do not match."""
    return any(_MISMATCH.search(line) for line in (failure.exception or "", *failure.tail))


def error_signature(failure: Failure, numbers: bool = False) -> str | None:
    """How the attempt failed, to compare with others. None if it was ended from outside, or its log says nothing.

    A stall is a failure of the task that was killed for it, whatever its log says. Numbers in an error do not count,
    unless `numbers`: then they are the only hint how far the attempt came.
    """
    exit_, said = failure.exit, last_error(failure)
    if exit_.asked is Asked.STALL:
        return f"{failure.task} {exit_}"
    if exit_.ok:
        return str(exit_)  # its last output is not an error
    if said is None or exit_.asked is not None or exit_.error is not None or exit_.host is not None:
        return None
    if exit_.preempted or was_killed(exit_):
        return None
    if is_mismatch(failure):
        return "the workers' collectives do not match"
    said = _VARYING.sub("#", said)
    return f"{exit_}: {said if numbers else _NUMBERS.sub('#', said)}"


SIGABRT = 6

_FROM_PEER = re.compile(f"{PEER_GONE.pattern}|grpc_status|GRPC error")  # in a line before the last exception


def looks_collateral(failure: Failure) -> bool:
    """Whether the attempt failed as TensorFlow's tasks do when a peer is gone, or did not start since one is."""
    if failure.exit.unreached:
        return True
    if is_mismatch(failure) or failure.exit.ok:
        return False
    if failure.exit.signal is not None:
        return failure.exit.signal == SIGABRT
    if failure.exit.code is None or failure.exit.preempted:  # could not start, or was lost with its host, too
        return False
    if failure.exception is not None:
        return PEER_GONE.search(failure.exception) is not None
    return any(PEER_GONE.search(line) for line in failure.tail if not is_info(line))


def is_own(failure: Failure) -> bool:
    """Whether only the attempt's own program can explain how it ended, and neither a peer nor a signal."""
    exit_ = failure.exit
    if was_killed(exit_) or exit_.preempted or (exit_.code is None and exit_.signal is None):
        return False
    if is_mismatch(failure):
        return True
    told = (line for line in failure.tail if not is_info(line))
    return not looks_collateral(failure) and not any(map(_FROM_PEER.search, told))


def blame(failures: Sequence[Failure]) -> Blame:
    """Find the cause of failures that happened together; `same` and `collateral` are in order of time.

    The cause is the first failure that does not look as if a peer were gone. The first exit may be a peer's: a program
    that raises an exception takes longer to exit than its peers take to notice. Tasks that run the same program may
    raise the same exception; then none of them is collateral. A task that left with code 0 is only the
    cause of failures that look collateral.
    """
    in_time = sorted(failures, key=lambda failure: failure.at)
    own = sorted((one for one in in_time if not looks_collateral(one)), key=lambda failure: failure.exit.ok)
    cause = next(iter(own), in_time[0])
    others = [failure for failure in in_time if failure is not cause]
    error = None if looks_collateral(cause) else error_signature(cause)
    like = [error is not None and error_signature(failure) == error for failure in others]
    same = tuple(failure for failure, is_own in zip(others, like, strict=True) if is_own)
    return Blame(cause, same, tuple(failure for failure, is_own in zip(others, like, strict=True) if not is_own))


UNSEEN = 120.0  # seconds; if no task reports steps, an attempt that lived longer may have made some

# Errors that come from outside the program, and may be gone at the next attempt.
_MAY_PASS = re.compile(
    r"MemoryError|ResourceExhaustedError|TimeoutError|BrokenPipeError|Connection\w*Error"
    r"|No space left on device|Disk quota exceeded|Cannot allocate memory|Too many open files"
    r"|Resource temporarily unavailable|Address already in use|Temporary failure in name resolution"
    r"|incarnation|context_id"  # TensorFlow's words for a peer that has started again meanwhile
)

# What a program asked for that it did not get. If the next attempt fails to get the same, it always will.
_AMOUNT = re.compile(r"Unable to allocate \S+ \w+ for an array with shape |OOM when allocating tensor with shape")

# Errors of the program's text or of what is installed. The next attempt reads the same ones.
_OF_PROGRAM = re.compile(
    r"(?:NameError|UnboundLocalError|ImportError|ModuleNotFoundError|SyntaxError|IndentationError|TabError): "
    r"|AttributeError: (?:partially initialized )?(?:module|type object) '"
    r"|TypeError: .*(?: got an unexpected keyword argument | missing \d+ required | positional arguments? but )"
)
# Errors of a path, which another task may yet make, as the leader does for its peers.
_OF_PATH = re.compile(
    r"(?:FileNotFoundError|NotADirectoryError|IsADirectoryError|PermissionError|ValueError: File not found): "
    r"|[\w.]*\.NotFoundError: .*; No such file or directory"
)
_USAGE = 2  # with which argparse, click and most commands exit if their arguments are wrong


def is_usage_error(blamed: Blame, leader: Task) -> bool:
    """Whether an error that came before anything was trained comes again: of the program, its arguments or its paths.

    A missing file counts if the leader misses it, too: its peers may wait for one that it writes.
    """
    cause = blamed.cause
    said = cause.exception or ""
    if cause.exit.ok or not is_own(cause) or _MAY_PASS.search(said):
        return False
    if cause.exit.code == _USAGE and any(line.lower().startswith("usage: ") for line in cause.tail):
        return True
    by_leader = any(failure.task == leader for failure in (cause, *blamed.same))
    return bool(_OF_PROGRAM.match(said) or (by_leader and _OF_PATH.match(said)))


def repeats(before: Failure | None, failure: Failure, numbers: bool = False) -> bool:
    """Whether two consecutive attempts failed in the same way, and only the program can be the reason.

    With `numbers` the numbers in their errors count too, since nothing else shows how far the attempts came. So do
    those of an allocation that failed.
    """
    if before is None or failure.attempt != before.attempt + 1 or looks_collateral(failure):
        return False
    said = last_error(failure) or ""
    is_amount = _AMOUNT.search(said) is not None
    if not is_amount and failure.exit.asked is not Asked.STALL and _MAY_PASS.search(said):
        return False
    error = error_signature(failure, numbers or is_amount)
    return error is not None and error == error_signature(before, numbers or is_amount)
