"""Functions as programs: called in every task, their values brought back."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from clusterkit import Cluster, ClusterFailed
from clusterkit.api.options import RUNNER, pickle_call
from clusterkit.job.options import GivenOptions
from clusterkit.store.store import RunStore
from clusterkit.supervisor.prepare import prepare
from clusterkit.task.call import dumps
from clusterkit.warm.choice import launch_for
from clusterkit.warm.fork_client import Launch

pytestmark = [pytest.mark.process, pytest.mark.slow]

FACTOR = 10  # a global of this module, which no task can import
Call = Callable[..., Any]


@dataclass
class Told:
    """What a task tells of itself, in a class that is defined here."""

    task: str
    product: int


def tell(number: int, plus: int = 0) -> Told:
    """Uses a global, a class of this module, and the task's environment."""
    return Told(os.environ["CLUSTERKIT_TASK"], number * FACTOR + plus)


def imports_in_itself() -> None:
    """TensorFlow's name is in the function's code."""
    from keras.src import backend  # noqa: F401


def is_annotated(text: str = "my tensorflow") -> "tensorflow.Tensor":  # type: ignore[name-defined]  # noqa: F821, UP037
    """It is in texts only that are no module's names."""
    return text


@pytest.mark.parametrize(("function", "warm"), [(imports_in_itself, True), (is_annotated, False), (tell, False)])
def test_a_function_that_imports_tensorflow_starts_warm(function: Any, warm: bool, tmp_path: Path) -> None:
    """As a program does whose text imports it."""
    path = tmp_path / "tensorflow" / "call.pkl"
    path.parent.mkdir()
    pickle_call(function, ["a keras"], {}, path, Path.cwd())
    starts: tuple[Literal["auto", "cold"], ...] = ("auto", "cold")
    for start in starts:
        job = prepare(GivenOptions({"program": RUNNER, "args": [str(path)], "start": start})).job
        launch = launch_for(job, RunStore().run("some"))
        assert (isinstance(launch, Launch) and launch.preload.tensorflow) is (warm and start == "auto")


@pytest.fixture
def call(home: Path) -> Call:
    """Call a function in a cluster to its end, and return what came of it."""

    def run(function: Any, *args: object, **options: Any) -> Any:
        with Cluster(function, args=args, home=home, patience=30, restart="never", **options) as cluster:
            return cluster.wait()

    return run


def test_a_function_of_a_test_module_returns_from_every_task(call: Call) -> None:
    """Its globals and classes travel with it, and what it returns is of this process's classes."""
    returns = call(tell, 4, kwargs={"plus": 2}, workers=2).returns
    assert returns == {"worker:0": Told("worker:0", 42), "worker:1": Told("worker:1", 42)}


def test_what_it_returns_on_other_hosts_comes_from_there(call: Call) -> None:
    """Stand-ins are hosts as any."""
    returns = call(tell, 4, workers=2, hosts=2).returns
    assert returns == {"worker:0": Told("worker:0", 40), "worker:1": Told("worker:1", 40)}


def test_a_partial_lambda_and_closure_can_be_called(call: Call, tmp_path: Path) -> None:
    """Also in another directory, and whatever is called like clusterkit's modules there."""
    (tmp_path / "words.py").write_text("raise RuntimeError('the wrong words')")
    number = 3
    assert call(partial(tell, 1)).returns["worker:0"].product == 10
    assert call(lambda: (number, str(Path.cwd())), cwd=tmp_path).returns["worker:0"] == (3, str(tmp_path))


def test_an_exception_shows_the_functions_own_lines(call: Call) -> None:
    """Nothing of what called it."""

    def fail() -> None:
        try:
            raise LookupError("not here")
        except LookupError as error:
            raise ExceptionGroup("two", [error, KeyError(1)]) from error

    with pytest.raises(ClusterFailed) as caught:
        call(fail)
    cause = caught.value.result.cause
    assert cause is not None
    assert (cause.exit.code, cause.exception) == (1, "ExceptionGroup: two (2 sub-exceptions)")
    assert sum(line.endswith("LookupError: not here") for line in cause.tail) == 2
    assert [line for line in cause.tail if "File " in line and "test_functions.py" not in line] == []


def test_a_pickled_functions_file_is_the_one_that_it_stands_in() -> None:
    """So are those of the functions in it, whatever cloudpickle makes of them: tracebacks show their lines."""

    def outer() -> Any:
        return lambda: None

    copy = pickle.loads(dumps(outer))
    assert (copy.__code__.co_filename, copy().__code__.co_filename) == (__file__, __file__)


def test_an_exit_code_is_the_tasks(call: Call) -> None:
    """sys.exit in a function is what it is in a program."""

    def leave() -> None:
        raise SystemExit(7)

    with pytest.raises(ClusterFailed, match="exited with code 7"):
        call(leave)


def test_a_value_that_can_not_be_pickled_fails_its_task(call: Call) -> None:
    """With a sentence in its log."""
    with pytest.raises(ClusterFailed, match="what the function returned in worker:0 can't be pickled: TypeError"):
        call(lambda: threading.Lock())


def test_servers_that_never_return_have_no_value(call: Call) -> None:
    """In a parameter-server job that is all but the chief."""

    def train() -> str:
        if not os.environ["CLUSTERKIT_TASK"].startswith("chief"):
            threading.Event().wait()
        return "trained"

    result = call(train, workers=1, ps=1, startup_timeout=0)
    assert (result.ok, result.returns) == (True, {"chief:0": "trained"})


def test_the_value_is_that_of_the_last_attempt(home: Path) -> None:
    """A task that failed once and was started again has one value."""

    def second() -> int:
        attempt = int(os.environ["CLUSTERKIT_ATTEMPT"])
        if attempt == 1:
            raise RuntimeError("the first time")
        return attempt

    with Cluster(second, home=home, patience=30, restart_backoff=0.1) as cluster:
        assert cluster.wait().returns == {"worker:0": 2}
