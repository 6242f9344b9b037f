"""What a main thread does, from stacks that faulthandler wrote in real jobs (TensorFlow 2.21, Python 3.11)."""

from __future__ import annotations

import pytest

from clusterkit.backends.local.blocked_threads import StackFrame, doing, main_thread, other_threads

PYTHON, TENSORFLOW = "/usr/lib/python3.11", "/venv/lib/python3.11/site-packages/tensorflow/python"
TRAINING, HOME = "/venv/lib/python3.11/site-packages/clusterkit/training", "/home/me"
CHECKOUT = "/src/clusterkit/clusterkit"
END = (f"{CHECKOUT}/task/entry.py 91 run_script", f"{CHECKOUT}/task/entry.py 273 <module>")
CALL = (
    f"{TENSORFLOW}/eager/context.py 1688 call_function",
    f"{TENSORFLOW}/eager/polymorphic_function/atomic_function.py 251 call_flat",
    f"{TENSORFLOW}/eager/polymorphic_function/polymorphic_function.py 833 __call__",
    f"{TENSORFLOW}/util/traceback_utils.py 164 error_handler",
)
BACKGROUND = (
    f"{PYTHON}/threading.py 1149 join",
    f"{TRAINING}/background.py 54 finish",
    f"{TRAINING}/background.py 45 wait",
)
SAVE = (
    f"{TENSORFLOW}/checkpoint/functional_saver.py 558 save",
    f"{TENSORFLOW}/checkpoint/checkpoint.py 1356 save",
    f"{TENSORFLOW}/checkpoint/checkpoint.py 2369 _write",
    f"{TENSORFLOW}/checkpoint/checkpoint.py 2320 write",
)
TRACE = (
    f"{TENSORFLOW}/framework/func_graph.py 1060 func_graph_from_py_func",
    f"{TENSORFLOW}/eager/polymorphic_function/tracing_compilation.py 178 trace_function",
    f"{TENSORFLOW}/eager/polymorphic_function/polymorphic_function.py 833 __call__",
)
RUNTIME = "waits in TensorFlow's runtime (a step or a collective)"
KERAS = "/venv/lib/python3.11/site-packages/keras/src"
FIT = (f"{KERAS}/backend/tensorflow/trainer.py 394 fit", f"{KERAS}/utils/traceback_utils.py 117 error_handler")
REDUCE = (
    f"{PYTHON}/threading.py 327 wait",
    f"{PYTHON}/multiprocessing/pool.py 765 wait",
    f"{PYTHON}/multiprocessing/pool.py 367 map",
    f"{TENSORFLOW}/distribute/cross_device_ops.py 1208 _all_reduce_per_replica_values",
)


def written(*frames: str, thread: str = "Current thread") -> str:
    """A thread's stack as faulthandler writes it, from `file line function`, innermost first."""
    lines = [f"{thread} 0x00007f309f847b80 (most recent call first):"]
    for frame in frames:
        file, line, function = frame.split()
        lines.append(f'  File "{file}", line {line} in {function}')
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("frames", "text", "own"),
    [
        (
            (
                f"{PYTHON}/threading.py 327 wait",
                f"{TENSORFLOW}/distribute/coordinator/cluster_coordinator.py 547 wait",
                f"{TENSORFLOW}/distribute/coordinator/cluster_coordinator.py 1390 join",
                f"{TENSORFLOW}/distribute/coordinator/cluster_coordinator.py 1584 join",
                f"{HOME}/ps_train.py 110 run",
            ),
            "waits in ClusterCoordinator.join",
            False,
        ),
        (
            (
                f"{PYTHON}/threading.py 327 wait",
                f"{PYTHON}/threading.py 629 wait",
                f"{TENSORFLOW}/distribute/coordinator/values.py 98 _wait_and_maybe_error",
                f"{TENSORFLOW}/distribute/coordinator/values.py 133 get",
                f"{TENSORFLOW}/distribute/coordinator/values.py 111 fetch",
                f"{HOME}/train.py 24 <module>",
            ),
            "waits in RemoteValue.fetch",
            False,
        ),
        (
            (
                f"{TENSORFLOW}/training/server_lib.py 185 join",
                f"{TRAINING}/server.py 27 serve",
                f"{HOME}/a.py 134 main",
            ),
            "waits in Server.join",
            False,
        ),
        ((f"{TENSORFLOW}/eager/execute.py 53 quick_execute", *CALL, f"{HOME}/mwms.py 19 <module>"), RUNTIME, False),
        (
            (
                f"{TENSORFLOW}/eager/context.py 745 ensure_initialized",
                f"{TENSORFLOW}/distribute/collective_all_reduce_strategy.py 602 _initialize_multi_worker",
                f"{TENSORFLOW}/distribute/collective_all_reduce_strategy.py 187 __init__",
                f"{HOME}/mwms.py 6 <module>",
            ),
            "waits in MultiWorkerMirroredStrategy() for the others (coordination service)",
            False,
        ),
        (
            (
                f"{TENSORFLOW}/eager/execute.py 53 quick_execute",
                *CALL,
                *SAVE,
                f"{CHECKOUT}/training/checkpointer.py 76 save",
                f"{HOME}/ps_train.py 129 train",
            ),
            "writes a checkpoint",
            True,
        ),
        (
            (
                f"{CHECKOUT}/training/checkpoint_store.py 185 _sync",
                f"{CHECKOUT}/training/checkpointer.py 79 save",
                f"{HOME}/ps_train.py 129 train",
            ),
            "writes a checkpoint",
            True,
        ),
        (
            (*BACKGROUND, f"{TRAINING}/checkpointer.py 135 wait", f"{HOME}/ps_train.py 131 train"),
            "writes a checkpoint",
            True,
        ),
        (
            (f"{TENSORFLOW}/eager/execute.py 53 quick_execute", *SAVE, f"{HOME}/own.py 9 save"),
            "writes a checkpoint",
            True,
        ),
        (
            (
                f"{TENSORFLOW}/ops/gen_dataset_ops.py 3081 iterator_get_next",
                f"{TENSORFLOW}/data/ops/iterator_ops.py 776 _next_internal",
                f"{TENSORFLOW}/data/ops/iterator_ops.py 826 __next__",
                f"{HOME}/train.py 17 <module>",
            ),
            "waits for its next batch (tf.data)",
            True,
        ),
        ((*REDUCE, f"{HOME}/train.py 13 <module>"), RUNTIME, False),
        ((*REDUCE, *FIT, f"{HOME}/train.py 13 <module>"), "waits in fit (a step or a collective)", False),
        (
            (
                f"{TENSORFLOW}/eager/execute.py 53 quick_execute",
                *CALL,
                "/venv/lib/python3.11/site-packages/tf_keras/src/engine/training.py 2200 evaluate",
                f"{HOME}/t.py 2 <module>",
            ),
            "waits in evaluate (a step or a collective)",
            False,
        ),
        ((f"{HOME}/t.py 12 locked", *FIT, f"{HOME}/t.py 13 <module>"), "is at t.py:12 in locked", True),
        ((f"{HOME}/mwms.py 15 spin", f"{HOME}/mwms.py 18 <module>"), "is at mwms.py:15 in spin", True),
        (
            (f"{HOME}/callback.py 3 on_batch", f"{TENSORFLOW}/keras.py 9 fit", f"{HOME}/t.py 2 <module>"),
            "is at callback.py:3 in on_batch",
            True,
        ),
        (
            (
                f"{TENSORFLOW}/framework/ops.py 757 convert_to_tensor",
                f"{HOME}/m.py 5 call",
                *TRACE,
                f"{HOME}/t.py 9 main",
            ),
            "traces a tf.function at m.py:5 in call",
            True,
        ),
        (
            (f"{PYTHON}/threading.py 331 wait", f"{PYTHON}/queue.py 180 get", f"{HOME}/t.py 14 load"),
            "waits for a queue at t.py:14 in load",
            True,
        ),
        (
            (f"{PYTHON}/threading.py 331 wait", f"{PYTHON}/threading.py 629 wait", f"{HOME}/t.py 16 <module>"),
            "waits for a lock or an event at t.py:16",
            True,
        ),
        (
            (
                f"{PYTHON}/threading.py 1139 _wait_for_tstate_lock",
                f"{PYTHON}/threading.py 1119 join",
                f"{HOME}/t.py 8 f",
            ),
            "waits for a thread to end at t.py:8 in f",
            True,
        ),
        (
            (f"{PYTHON}/socket.py 706 readinto", f"{PYTHON}/http/client.py 286 _read_status", f"{HOME}/t.py 37 fetch"),
            "waits for a socket at t.py:37 in fetch",
            True,
        ),
        (
            (f"{PYTHON}/subprocess.py 2004 _try_wait", f"{PYTHON}/subprocess.py 1264 wait", f"{HOME}/t.py 24 f"),
            "waits for another process at t.py:24 in f",
            True,
        ),
        (
            (
                f"{PYTHON}/selectors.py 468 select",
                f"{PYTHON}/asyncio/base_events.py 1884 _run_once",
                f"{HOME}/t.py 2 f",
            ),
            "waits in asyncio's loop at t.py:2 in f",
            True,
        ),
        (
            (
                f"{PYTHON}/threading.py 327 wait",
                f"{PYTHON}/concurrent/futures/_base.py 451 result",
                f"{HOME}/t.py 31 f",
            ),
            "waits for a future at t.py:31 in f",
            True,
        ),
        (
            (
                f"{PYTHON}/selectors.py 415 select",
                f"{PYTHON}/multiprocessing/connection.py 947 wait",
                f"{HOME}/t.py 3 f",
            ),
            "waits for a pipe of multiprocessing at t.py:3 in f",
            True,
        ),
    ],
)
def test_what_a_thread_does(frames: tuple[str, ...], text: str, own: bool) -> None:
    """What tells most, between the program's own code and the innermost frame; else the program's own line."""
    seen = doing(main_thread(written(*frames, *END)))
    assert seen is not None
    assert (seen.text, seen.own) == (text, own)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("time.sleep(1000)", "sleeps (time.sleep) at t.py:5 in f"),
        ("answer = input()", "waits for input at t.py:5 in f"),
        ("lock.acquire()", "waits for a lock at t.py:5 in f"),
        ("with self._lock:", "waits for a lock at t.py:5 in f"),
        ("data = connection.recv(1)", "waits for a socket at t.py:5 in f"),
        ("select.select([b], [], [])", "waits for a socket or a pipe at t.py:5 in f"),
        ("total += sum(range(1000))", "is at t.py:5 in f"),
        ("", "is at t.py:5 in f"),
    ],
)
def test_a_call_into_c_is_told_from_its_line_of_code(source: str, text: str) -> None:
    """Such a function has no frame of its own; a line that calls a library's function says nothing more."""
    frames = main_thread(written(f"{HOME}/t.py 5 f", *END))
    seen = doing(frames, source)
    assert seen is not None
    assert seen.text == text
    called = doing([StackFrame(f"{PYTHON}/json/decoder.py", 1, "decode"), *frames], source)
    assert called is not None
    assert called.text == "is at t.py:5 in f"


def test_a_program_that_is_installed_is_at_its_innermost_line() -> None:
    """Where no line is known to be the program's own."""
    seen = doing(main_thread(written("/venv/lib/python3.11/site-packages/mine/train.py 5 step", *END)))
    assert seen is not None
    assert seen.text == "is at train.py:5 in step"


def test_the_main_thread_is_the_one_that_began_with_the_program() -> None:
    """faulthandler writes the newest thread first, and marks the one that the signal came to, whichever that is."""
    other = written(f"{PYTHON}/threading.py 327 wait", f"{PYTHON}/threading.py 1002 _bootstrap", thread="Thread")
    main = written(f"{HOME}/t.py 5 f", *END)
    for dump in (f"{other}\n{main}", f"{other}\n{other}\n{main}", other.replace("Thread", "Current thread") + main):
        assert main_thread(dump)[0] == StackFrame(f"{HOME}/t.py", 5, "f")


def test_a_stack_that_was_cut_short_is_found_by_its_thread() -> None:
    """faulthandler ends at the hundredth frame, so the outermost is not there."""
    other = written(f"{PYTHON}/threading.py 327 wait", thread="Thread")
    cut = written(*[f"{HOME}/deep.py {line} down" for line in range(1, 101)]) + "  ...\n"
    assert main_thread(other + cut)[0] == StackFrame(f"{HOME}/deep.py", 1, "down")
    assert main_thread(other)[0].function == "wait"


@pytest.mark.parametrize("dump", ["", "nonsense\n", "Current thread 0x00007f (most recent call first):\n"])
def test_what_is_no_dump_tells_nothing(dump: str) -> None:
    """A stopped task writes nothing."""
    assert main_thread(dump) == ()
    assert doing(main_thread(dump)) is None


def test_other_threads_are_where_they_run_the_programs_code() -> None:
    """The innermost line of each, such as that of a generator; threads of libraries alone are left out."""
    generator = written(f"{HOME}/data.py 8 rows", f"{TENSORFLOW}/data/ops/script_ops.py 5 call", thread="Thread")
    library = written(f"{PYTHON}/threading.py 327 wait", thread="Thread")
    main = written(f"{TENSORFLOW}/eager/execute.py 53 quick_execute", f"{HOME}/t.py 5 <module>", *END)
    assert list(map(str, other_threads("\n".join((generator, library, main))))) == ["data.py:8 in rows"]
    assert other_threads(main) == other_threads("") == ()
    assert len(other_threads("\n".join([generator] * 50 + [main]))) == 10
