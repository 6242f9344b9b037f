"""Tracebacks that several tasks print, as histories of lines."""

from __future__ import annotations

from hypothesis import given, seed
from hypothesis import strategies as st

from clusterkit.text.lines import TRACEBACK as TITLE
from clusterkit.views.repeats import LONGEST, Repeats, ShownTraceback

FRAMES = ['  File "train.py", line 3, in step', "    f()"]
FIRST = [TITLE, *FRAMES, "E: 1", "more of it", "", "the end"]


def shown(*outputs: tuple[str, list[str]]) -> list[list[str]]:
    """What is shown of the output of each attempt of a task, one after the other."""
    known = dict[tuple[str, ...], ShownTraceback]()
    result = []
    for _, lines in outputs:
        repeats = Repeats(known)
        result.append([shown for line in lines for shown in repeats.feed(line)] + repeats.flush())
    return result


def test_the_same_traceback_of_another_task_is_one_line() -> None:
    """With what its exception says in further lines, as far as that is the same."""
    folded = ["E … 3 lines of traceback as above"]
    others = ("worker:1", ["step 1", *FIRST]), ("worker:2", [*FIRST[:5], "bye", "the end"])
    assert shown(("worker:0", FIRST), *others) == [FIRST, ["step 1", *folded], [*folded, "bye", "the end"]]


def test_a_restarted_task_that_fails_again_repeats_nothing() -> None:
    """The task itself has shown it before; a program that prints it twice wants to."""
    again = ["E … 3 lines of traceback as above"]
    assert shown(("worker:0", FIRST * 2), ("worker:0", FIRST)) == [FIRST * 2, again]


def test_another_traceback_is_shown() -> None:
    """With another line, or another exception; or one without an end, or too long."""
    other = [TITLE, *FRAMES, "E: 2"]
    long = [TITLE, *FRAMES * LONGEST, "E: 1"]
    for lines in (other, [TITLE, "  File", "E: 1"], FIRST[:3], long, [TITLE, TITLE, *FRAMES, "E: 3"]):
        assert shown(("worker:0", FIRST), ("worker:1", lines))[1] == lines


def test_names_of_files_that_autograph_makes_do_not_count() -> None:
    """They differ in each task."""
    of_task = [
        [TITLE, f'  File "/tmp/__autograph_generated_file{name}.py", line 1, in f', "E: 1"] for name in ("a1", "b2")
    ]
    assert shown(("worker:0", of_task[0]), ("worker:1", of_task[1]))[1] == ["E … 2 lines of traceback as above"]


CLOSURE = "ERROR:tensorflow: /job:worker/task:1 encountered the following error when processing closure: "
PEER = ":UNKNOWN:Error received from peer {grpc_status:11}"


def failed_closures(number: int) -> list[str]:
    """What TensorFlow logs about a closure that failed, and two that were cancelled for it."""
    why = ["", "Detected at node cond/Next defined at (most recent call last):", *FRAMES[:1], "", "End of sequence"]
    rest = ["\t [[{{node cond/Next}}]]", "Additional GRPC error information from remote target /job:worker:", PEER]
    derived = "ERROR:tensorflow:Remote function on worker /job:worker/replica:0/task:0 failed with CancelledError():"
    return [
        *[f"{CLOSURE}OutOfRangeError():Graph execution error:", *why, *rest],
        *["ERROR:tensorflow:Start cancelling closures due to error OutOfRangeError(): Graph", *why, *rest],
        *[derived, PEER, "This derived error is ignored and not reported to users."] * 2,
        *[TITLE, *FRAMES, f"tensorflow.python.framework.errors_impl.CancelledError: closure {number}"],
    ]


def test_the_error_of_a_closure_is_two_lines() -> None:
    """What failed and why, without the operations and what was cancelled for it; the program's own lines stay."""
    assert shown(("chief:0", ["step 1", *failed_closures(1), "bye"])) == [
        [
            *["step 1", f"{CLOSURE}OutOfRangeError():Graph execution error:", "End of sequence"],
            "CancelledError: closure 1 … 3 lines of traceback: cancelled by the OutOfRangeError above",
            "bye",
        ]
    ]


def test_the_calls_of_an_error_that_went_through_two_tasks_are_hidden() -> None:
    """The coordinator logs each attempt to reach a parameter server that does not answer."""
    head = (
        "ERROR:tensorflow:Remote function on worker /job:worker/replica:0/task:1 failed with UnavailableError():failed"
    )
    call = "Additional GRPC error information from remote target /job:{}/replica:0/task:0 while calling /Enqueue:"
    calls = [line for job in ("ps", "worker") for line in (call.format(job), ":UNKNOWN:Error received from peer  {}")]
    again = [head, *calls, "It is treated as a transient connectivity failure for now."]
    assert shown(("chief:0", ["step 1", *again, *again, "bye"])) == [["step 1", "bye"]]


def test_another_error_of_a_closure_is_shown() -> None:
    """One of the same type shows what is new; one that only says that a peer is gone explains no cancellation."""
    other = [f"{CLOSURE}OutOfRangeError():", "End of another", PEER, "mine"]
    (lines,) = shown(("chief:0", [*failed_closures(1), *other]))
    assert lines[-2:] == ["End of another", "mine"]
    gone = [f"{CLOSURE}UnavailableError():", "Socket closed", PEER, *failed_closures(1)[-4:]]
    (lines,) = shown(("chief:0", gone))
    assert lines[-1].endswith("a peer is gone")


@seed(2)
@given(st.lists(st.sampled_from([*failed_closures(1), "x", "", PEER]) | st.text(max_size=5)))
def test_lines_that_look_like_closures_are_shown_in_their_order(lines: list[str]) -> None:
    """Nothing is made up, and a line of the program's own after an error's end is never hidden."""
    (told,) = shown(("chief:0", [*lines, PEER, "the program's own"]))
    assert told[-1] == "the program's own" or TITLE in lines
    whole = iter([*lines, PEER, "the program's own"])
    assert all(any(line == one for one in whole) for line in told if " … " not in line and not line.startswith("  … "))


@seed(1)
@given(st.lists(st.sampled_from([*FIRST, "x", " y"]) | st.text(max_size=5)))
def test_nothing_of_the_first_task_is_hidden(lines: list[str]) -> None:
    """Whatever it writes, in its order."""
    assert shown(("worker:0", lines)) == [lines]


def test_frames_of_packages_are_counted() -> None:
    """Those of the program are as Python prints them, and so are its marks."""
    library = ['  File "/v/site-packages/keras/src/t.py", line 12, in fit', "    raise e from None", "    ^^^^^^^"]
    standard = ['  File "/usr/lib/python3.12/pool.py", line 3, in map', "    f()"]
    marked = ['  File "/home/me/train.py", line 9, in step', "    f(x)", "    ^^^^"]
    error = [TITLE, *marked, *library * 2, *standard, *marked, *library, "E: 1", "more"]
    folded = [TITLE, *marked, "  … 3 frames of keras and Python", *marked, "  … 1 frame of keras", "E: 1", "more"]
    assert shown(("worker:0", error), ("worker:1", error)) == [
        folded,
        [f"E … {len(error) - 2} lines of traceback as above"],
    ]


def test_the_stack_of_a_crash_shows_the_programs_frames() -> None:
    """Libraries' frames are counted; clusterkit's own, which started the program, and the extensions are left out."""
    library, own = (
        '  File "/v/site-packages/keras/fit.py", line 3 in fit',
        '  File "/home/train.py", line 9 in <module>',
    )
    starts = '  File "/v/site-packages/clusterkit/task/entry.py", line 300 in <module>'
    crash = ["Fatal Python error: Aborted", "", "Stack (most recent call first):"]
    said = [*crash, library, library, own, starts, starts, "", "Extension modules: numpy, h5py (total: 2)", library]
    repeats = Repeats({})
    assert repeats.may_hide(b"x\nFatal Python error: Aborted\n")
    shown = [each for line in said for each in repeats.feed(line)] + repeats.flush()
    assert shown == [*crash, "  … 2 frames of keras", own, "", library]


def test_a_peers_end_is_one_line() -> None:
    """Each time; what TensorFlow adds about the connection is not shown, and what the program says then is."""
    said = "tensorflow.python.framework.errors_impl.UnavailableError: {{function_node __wrapped__X_d}} Socket closed"
    after = [
        "Additional GRPC error information from remote target /job:worker/replica:0/task:0 while calling /x:",
        ':UNKNOWN:Error received from peer  {grpc_status:14, grpc_message:"Socket closed"}',
        "The error could be from a previous operation. Restart your program to reset. [Op:CollectiveReduceV2] name: ",
    ]
    line = "UnavailableError: Socket closed … 3 lines of traceback: a peer is gone"
    lines = [TITLE, *FRAMES, said, *after, "bye"]
    assert shown(("worker:0", lines), ("worker:1", lines)) == [[line, "bye"]] * 2


def test_a_traceback_begins_on_a_line_of_its_own() -> None:
    """Though an exception leaves a progress bar without the end of its line."""
    assert shown(("worker:0", [f"19/32 loss: 0.07{FIRST[0]}", *FIRST[1:]])) == [["19/32 loss: 0.07", *FIRST]]
    group = f"  + Exception Group {TITLE}"
    assert shown(("worker:0", [group, "  | E: 1"])) == [[group, "  | E: 1"]]


def test_a_librarys_warning_is_one_line_and_shown_once() -> None:
    """Of the program's own warnings all are shown, and what a task's runtime has said is not repeated either."""
    library = ["/v/lib/site-packages/keras/src/e.py:74: UserWarning: odd data.", "  self.x = f("]
    own = ["/home/me/train.py:3: UserWarning: odd", "  f()"]
    runtime = "clusterkit: patched fit"
    lines = [*library, "a", *own, runtime]
    first = ["keras/src/e.py:74: UserWarning: odd data.", "a", *own, runtime]
    assert shown(("worker:0", lines), ("worker:1", lines)) == [first, ["a", *own]]


def test_where_a_node_was_made_is_told_by_the_programs_frames() -> None:
    """TensorFlow lists them after the exception, each with an empty line; of a peer's end nothing of it is shown."""
    made = [
        "",
        "Detected at node Reduce defined at (most recent call last):",
        '  File "/home/me/train.py", line 17, in <module>',
        "",
        '  File "/v/site-packages/keras/src/trainer.py", line 117, in fit',
        "",
        '  File "/v/site-packages/keras/src/trainer.py", line 17, in step',
        "",
    ]
    own = [TITLE, *FRAMES, "InvalidArgumentError: Graph execution error:", *made, "Shapes differ", "bye"]
    gone = [TITLE, *FRAMES, "UnavailableError: Graph execution error:", *made, "Collective ops is aborted by: x", "bye"]
    assert shown(("worker:0", own), ("worker:1", gone)) == [
        [*own[:8], "  … 2 frames of keras", "Shapes differ", "bye"],
        ["UnavailableError: Graph execution error: … 3 lines of traceback: a peer is gone", "bye"],
    ]
