"""Whether two attempts ended in the same way, as tables."""

from __future__ import annotations

import pytest

from clusterkit.machine.blame import error_signature, repeats
from clusterkit.words.outcome import Asked, Exit, Failure
from tests.histories import task

RAISED = Exit(code=1)
ABORTED = "tensorflow.python.framework.errors_impl.AbortedError: Collective ops is aborted by: x"
UNAVAILABLE = "tensorflow.python.framework.errors_impl.UnavailableError: Socket closed"
NO_MODULE = "ModuleNotFoundError: No module named 'tensorfow'"
NOISE = "2026-11-21 10:20:31.123456: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on."


CRASHED = (
    "Fatal Python error: Segmentation fault",
    "Stack (most recent call first):",
    '  File "/venv/site-packages/tf/a.py", line 1 in f',
)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ('  File "/job/train.py", line 3 in step', '  File "/job/train.py", line 3 in step', True),
        ('  File "/job/train.py", line 3 in step', '  File "/job/train.py", line 8 in save', False),
    ],
)
def test_crashes_in_the_same_function_are_the_same(first: str, second: str, same: bool) -> None:
    """The innermost frame of the program counts, whatever called it."""
    outer = '  File "/opt/clusterkit/task/entry.py", line 304 in <module>'
    one, other = (failure(Exit(signal=11), n, None, (*CRASHED, own, outer)) for n, own in ((1, first), (2, second)))
    assert repeats(one, other) is same


def failure(exit_: Exit, attempt: int = 1, exception: str | None = None, tail: tuple[str, ...] = ()) -> Failure:
    """An attempt of worker:0 that ended so."""
    return Failure(task("worker:0"), attempt, exit_, float(attempt), tail, exception)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (NO_MODULE, NO_MODULE),
        ("ValueError: <C object at 0x7f3a12bc>", "ValueError: <C object at 0x7f00ff10>"),
        ("RuntimeError: loss is nan at step 17", "RuntimeError: loss is nan at step 4"),
        ("OSError: worker 3121 took 1.25 s", "OSError: worker 40 took 10 s"),
        ("KeyError: '/tmp/tmpab3_x9qz/a'", "KeyError: '/tmp/tmpzzzzzzzz/a'"),
        ("KeyError: 1b4e28ba-2fa1-11d2-883f-0016d3cca427", "KeyError: 6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ("RuntimeError: commit 3f786850e387550f", "RuntimeError: commit 89e6c98d92887913"),
    ],
)  # fmt: skip
def test_numbers_and_addresses_make_no_difference(first: str, second: str) -> None:
    """Nothing of what is different each time stands in the way of being the same."""
    assert repeats(failure(RAISED, 1, first), failure(RAISED, 2, second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (NO_MODULE, "ModuleNotFoundError: No module named 'tensorflow_text'"),
        ("KeyError: 'a'", "KeyError: 'b'"),
        ("KeyError: 'a'", "IndexError: 'a'"),
    ],
)
def test_other_exceptions_are_another_way(first: str, second: str) -> None:
    """Names and words count."""
    assert not repeats(failure(RAISED, 1, first), failure(RAISED, 2, second))


@pytest.mark.parametrize(
    ("exit_", "tail", "alike"),
    [
        (Exit(code=3), ("starting", "no such file: data.csv"), True),
        (Exit(code=3), (), False),
        (Exit(code=3), (NOISE,), False),
        (Exit(signal=11), ("Fatal Python error: Segmentation fault",), True),
        (Exit(signal=11), (), False),
        (Exit(signal=6), ("Fatal Python error: Aborted",), False),
        (Exit(signal=9), ("step 5",), False),
        (Exit(signal=15), ("step 5",), False),
        (Exit(signal=10), ("step 5",), False),
        (Exit(code=255), ("no such option",), True),
        (Exit(signal=9, out_of_memory=True), ("step 5",), False),
        (Exit(code=137), ("./train.sh: line 3: 4711 Killed",), False),
        (Exit(code=143), ("Terminated",), False),
        (Exit(code=139), ("./train.sh: line 3: 4711 Segmentation fault",), True),
        (Exit(code=42), ("checkpointed",), False),
        (Exit(code=1, asked=Asked.STALL), ("step 5",), True),
        (Exit(code=1, asked=Asked.GANG), ("step 5",), False),
        (Exit(error="no such file"), (), False),
    ],
)  # fmt: skip
def test_without_an_exception_exit_and_last_line_count(exit_: Exit, tail: tuple[str, ...], alike: bool) -> None:
    """A death that somebody else caused, a preemption and silence are no way to fail that comes again; a stall is."""
    assert (error_signature(failure(exit_, 1, None, tail)) is not None or exit_.signal == 6) is (
        alike or exit_.signal == 6
    )
    assert repeats(failure(exit_, 1, None, tail), failure(exit_, 2, None, tail)) is alike


def test_the_exit_code_counts() -> None:
    """The same last line with another code is another failure."""
    assert not repeats(failure(Exit(code=3), 1, None, ("x",)), failure(Exit(code=4), 2, None, ("x",)))


@pytest.mark.parametrize(
    "exception",
    [
        UNAVAILABLE,
        ABORTED,
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor",
        "tensorflow.python.framework.errors_impl.FailedPreconditionError: current incarnation doesn't match",
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: Unable to find a context_id matching 4",
        "MemoryError:",
        "OSError: [Errno 28] No space left on device: '/c/ckpt-4'",
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "TimeoutError: timed out",
    ],
)
def test_what_may_pass_is_not_held_against_the_program(exception: str) -> None:
    """A peer that is being restarted, memory or room that is missing now: the next attempt may well succeed."""
    assert not repeats(failure(RAISED, 1, exception), failure(RAISED, 2, exception))


NO_MEMORY = "numpy._core._exceptions._ArrayMemoryError: Unable to allocate {} for an array with shape (10000,)"


def test_an_allocation_that_fails_again_is_the_programs() -> None:
    """If it asks for as much as before; with another amount, it has come further or reads something else."""
    first, second = NO_MEMORY.format("9.09 TiB"), NO_MEMORY.format("8.5 TiB")
    assert repeats(failure(RAISED, 1, first), failure(RAISED, 2, first))
    assert not repeats(failure(RAISED, 1, first), failure(RAISED, 2, second))


@pytest.mark.parametrize("before", [None, failure(RAISED, 1, NO_MODULE), failure(RAISED, 3, NO_MODULE)])
def test_only_attempts_in_a_row_are_compared(before: Failure | None) -> None:
    """What ended otherwise in between, as asked or preempted, begins anew."""
    assert not repeats(before, failure(RAISED, 3, NO_MODULE))
