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
from clusterkit.api.options import RUNNER, pickle_call, read_returns
from clusterkit.api.result import read_result
from clusterkit.job.options import GivenOptions
from clusterkit.store.store import RunStore
from clusterkit.supervisor.prepare import prepare
from clusterkit.task.call import PLAIN, dumps
from clusterkit.warm.choice import launch_for
from clusterkit.warm.fork_client import Launch
from clusterkit.words.errors import BadJob, ClusterkitError

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


def tell_plainly(number: int) -> dict[str, Any]:
    """Values that JSON and NumPy have."""
    import numpy as np

    return {"task": os.environ["CLUSTERKIT_TASK"], "product": (number, np.arange(number))}


def test_what_it_returns_on_other_hosts_comes_from_there(call: Call) -> None:
    """Stand-ins are hosts as any. Nothing that they send is unpickled."""
    run = call(tell_plainly, 4, workers=2, hosts=2)
    assert {name: (one["task"], one["product"][0]) for name, one in run.returns.items()} == {
        "worker:0": ("worker:0", 4),
        "worker:1": ("worker:1", 4),
    }
    assert [*run.returns["worker:1"]["product"][1]] == [0, 1, 2, 3]
    assert [*run.directory.rglob("*.pkl")] == []


def test_a_caller_can_trust_the_hosts(call: Call) -> None:
    """Then objects of its own classes come back, too."""
    returns = call(tell, 4, workers=2, hosts=2, returns="pickle").returns
    assert returns == {"worker:0": Told("worker:0", 40), "worker:1": Told("worker:1", 40)}


def test_an_object_of_a_class_does_not_come_from_a_host(call: Call) -> None:
    """The task says so, and how it would."""
    with pytest.raises(ClusterFailed) as caught:
        call(tell, 4, workers=1, hosts=1)
    log = next(caught.value.result.directory.rglob("attempt-1.log")).read_text()
    assert "in worker:0 contains an object of the type " in log
    assert "Told. From other hosts come None, numbers, text," in log
    assert 'write Cluster(..., returns="pickle").' in log


def test_returns_has_two_forms(home: Path) -> None:
    """Others are refused with the other problems."""
    with pytest.raises(BadJob, match="returns='json': it has to be 'plain' or 'pickle'"):
        Cluster(tell, args=[1], home=home, returns="json")  # type: ignore[arg-type]


class Bomb:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("ending", ["pkl", "json"])
def test_a_swapped_return_value_of_a_host_runs_nothing(call: Call, tmp_path: Path, ending: str) -> None:
    """Whoever has the run's key can send any bytes under the name of a return value."""
    run = call(tell_plainly, 2, workers=1, hosts=1)
    mark = tmp_path / "mark"
    file = run.directory / f"tasks/worker:0/return-1.{ending}"
    file.write_bytes(pickle.dumps(Bomb(mark)))
    result = read_result(RunStore(run.directory.parent.parent).run(run.directory.name), 0)
    if ending == "pkl":
        assert read_returns(result, run.directory, PLAIN)["worker:0"]["task"] == "worker:0"
    else:
        with pytest.raises(ClusterkitError, match="What worker:0 returned can't be read here"):
            read_returns(result, run.directory, PLAIN)
    assert not mark.exists()


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
