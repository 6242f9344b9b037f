"""The magics in a real kernel, with tiny programs."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusterkit.store.store import RunStore, newest_first
from tests.support import CHILDREN, processes_of, wait_until

if TYPE_CHECKING:
    from tests.notebook.kernel import Kernel

pytest.importorskip("ipykernel", reason="make setup installs it")
pytestmark = [pytest.mark.process, pytest.mark.slow]

WAITS = "import os, time\nprint('up', os.environ['CLUSTERKIT_TASK'], flush=True)\ntime.sleep(300)\n"


@pytest.fixture(scope="module", autouse=True)
def loop() -> None:
    """The event loop of Jupyter's blocking clients: it stays, with its descriptors."""
    from jupyter_core.utils import ensure_event_loop

    ensure_event_loop()


@pytest.fixture
def kernel(home: Path, tmp_path: Path) -> Iterator[Kernel]:
    """A kernel in the test's directory; it and all of its runs are ended after the test."""
    from tests.notebook.kernel import Kernel

    started = Kernel(home, tmp_path)
    yield started
    started.end()
    wait_until(lambda: not processes_of(home), 30, lambda: f"the end of {processes_of(home)}")


def states(home: Path) -> dict[str, str]:
    """How each run ended, the oldest first: several may begin within the second that their ids name."""
    runs = reversed(newest_first(RunStore(home).all()))
    return {run.run_id: result.state if (result := run.result()) else "live" for run in runs}


def test_a_cell_is_the_program(kernel: Kernel, tmp_path: Path) -> None:
    """With what is taken along, the notebook's directory and its arguments; two outputs, one of them updated."""
    (tmp_path / "beside.py").write_text("word = 'beside'")
    kernel.run("import math\ndef twice(x):\n    return 2 * math.floor(x)")
    cell = kernel.run(
        "%%cluster --workers 2 --with twice -- --epochs 3\n"
        "import os, sys, beside\n"
        "print(os.environ['CLUSTERKIT_TASK'], twice(1.5), sys.argv[1:], beside.word, 'math' in globals(), '<i>')\n"
    )
    assert not cell.failed
    tabs, panes = cell.outputs
    assert tabs["data"]["text/plain"] == "all worker:0 worker:1"
    for task in ("worker:0", "worker:1"):
        assert f"{task}   │ {task} 2 ['--epochs', '3'] beside False <i>" in panes["data"]["text/plain"]
    assert "succeeded after" in panes["data"]["text/plain"]
    assert "<i>" not in panes["data"]["text/html"]
    assert "\x1b" not in str(cell.outputs)


def test_the_loss_is_a_curve_above_the_report(kernel: Kernel) -> None:
    """From the first value to the last one, which the report has, too."""
    cell = kernel.run(f"%cluster up --workers 1 {CHILDREN / 'roles.py'} --steps 30 --step-time 0.1")
    assert not cell.failed
    assert re.search(r"\nloss 1 █[▁-█]*▁ 0\.03333\n", cell.text)
    assert "metrics: loss 0.03333" in cell.text


def test_a_failure_fails_the_cell_in_one_line(kernel: Kernel) -> None:
    """The report has the line of the cell; the cell's own error has no traceback, and `Run all` stops."""
    cell = kernel.run("%%cluster --workers 2 --restart never\n\nraise ValueError('broken')")
    assert cell.failed
    assert re.search(r"cell-\d+\.py:3 in <module>: raise ValueError", cell.text)
    assert re.fullmatch(r"clusterkit: The run \S+ failed: worker:\d exited with code 1\.", cell.text.splitlines()[-1])


MISTAKES = {
    "%%cluster --wrokers 2\npass": "No such option '--wrokers'",
    "%%cluster --workers 0 --ps -1\npass": "Nothing was started.",
    "%%cluster --workers 2 train.py\npass": "The cell is the program",
    "%%cluster --with nothing\npass": "--with nothing: the notebook has no such name.",
    "%cluster up missing.py": "missing.py",
    "%cluster up --run-id ../x main.py": "can't be the name of a run",
    "%cluster ps": "No run is live.",
    "%cluster lgos": "No such command 'lgos'",
    "%cluster kill 'worker": "can't be split into words",
}


def test_mistakes_are_sentences(kernel: Kernel) -> None:
    """No traceback, and nothing is started."""
    for code, said in MISTAKES.items():
        cell = kernel.run(code)
        assert cell.failed, code
        assert said in cell.text
        assert "Traceback" not in cell.text


def test_a_program_of_a_file_and_commands(kernel: Kernel, tmp_path: Path) -> None:
    """`%%writefile main.py`, then `%cluster up`, as tutorials have it; `ls` and `logs` afterwards."""
    kernel.run("%%writefile main.py\nprint('from a file')")
    cell = kernel.run("%cluster up --workers 2 main.py")
    assert "worker:1   │ from a file" in cell.text
    listed = kernel.run("%cluster ls")
    assert re.search(r"succeeded .* main\.py", listed.text)
    run = re.findall(r"run (\S+) succeeded", cell.text)[0]
    assert kernel.run(f"%cluster logs --run {run} worker:1").text.count("from a file") == 1
    again = kernel.run(f"%cluster up --run-id {run} main.py")
    assert again.text == f"clusterkit: A run {run} already exists. Choose another --run-id, or omit it."
    assert "Usage: clusterkit" in kernel.run("%cluster").text


def test_an_interrupt_ends_the_run(kernel: Kernel, home: Path) -> None:
    """In order, with its report; the kernel goes on."""
    running = kernel.start(f"%%cluster --workers 2\n{WAITS}")
    running.wait_for("up worker:1")
    kernel.manager.interrupt_kernel()
    cell = running.end()
    assert cell.failed
    assert "Traceback" not in cell.text
    assert [*states(home).values()] == ["stopped"]
    assert not processes_of(home).keys() - {kernel.manager.provisioner.pid}  # type: ignore[union-attr]
    assert kernel.run("1 + 1").text == "2"


def test_an_interrupt_ends_the_cluster_that_a_cell_waits_for(kernel: Kernel, home: Path) -> None:
    """Also one that no `with` would end."""
    train = "def train():\n    import time\n    print('up', flush=True)\n    time.sleep(300)\n"
    running = kernel.start(f"from clusterkit import Cluster\n{train}Cluster(train).wait()")
    running.wait_for("worker:0 │ up")
    kernel.manager.interrupt_kernel()
    assert "KeyboardInterrupt" in running.end().text
    assert [*states(home).values()] == ["stopped"]


def test_an_interrupt_ends_a_run_that_is_not_ready_yet(kernel: Kernel, home: Path) -> None:
    """While `-d` waits for its tasks, the run is the cell's."""
    running = kernel.start(f"%%cluster -d --workers 2\n{WAITS}")
    wait_until(lambda: "up" in "".join(log.read_text() for log in home.glob("runs/*/tasks/*/*.log")), 20, "a start")
    kernel.manager.interrupt_kernel()
    assert running.end().failed
    own = {kernel.manager.provisioner.pid}  # type: ignore[union-attr]
    wait_until(lambda: not processes_of(home).keys() - own, 30, lambda: f"the end of {processes_of(home)}")


def test_the_second_interrupt_kills(kernel: Kernel, home: Path) -> None:
    """A task that clings to life does not keep the cell."""
    code = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('clings', flush=True)\ntime.sleep(300)"
    running = kernel.start(f"%%cluster --workers 1 --grace-period 200s\n{code}")
    running.wait_for("clings")
    kernel.manager.interrupt_kernel()
    running.wait_for("200 s")
    kernel.manager.interrupt_kernel()
    assert running.end().failed
    assert not processes_of(home).keys() - {kernel.manager.provisioner.pid}  # type: ignore[union-attr]


def test_the_kernels_death_ends_its_runs(kernel: Kernel, home: Path) -> None:
    """One that a cell waits for, and one that a cell left."""
    left = kernel.run(f"%%cluster -d --no-wait --workers 1\n{WAITS}")
    assert not left.failed
    running = kernel.start(f"%%cluster --workers 2\n{WAITS}")
    running.wait_for("up worker:0")
    assert len(processes_of(home)) > 5
    os.kill(kernel.manager.provisioner.pid, signal.SIGKILL)  # type: ignore[union-attr]
    wait_until(lambda: not processes_of(home), 30, lambda: f"the end of {processes_of(home)}")
    assert "live" not in states(home).values()


def test_a_cell_that_is_run_again_ends_what_it_left(kernel: Kernel, home: Path) -> None:
    """A run in the background, and a Cluster that has a name; runs of other cells continue."""
    background = f"%%cluster -d --no-wait --workers 1\n{WAITS}"
    cluster = "from clusterkit import Cluster\ndef train():\n    import time\n    time.sleep(300)\nrun = Cluster(train)"
    kernel.run(background)
    kernel.run(cluster)
    assert [*states(home).values()] == ["live", "live"]
    assert re.search(r"The run \S+ was stopped\.", kernel.run(background).text)
    assert re.search(r"The run \S+ was stopped\.", kernel.run(cluster).text)
    assert [*states(home).values()] == ["stopped", "stopped", "live", "live"]
    assert kernel.run("%cluster ls").text.count("train()") == 2


def test_a_cluster_is_shown_while_it_is_waited_for(kernel: Kernel) -> None:
    """As a cell that is the program; the result is the report, and a cluster that is left a short table."""
    train = "def train(word):\n    print(word, '<b>', flush=True)\n    return 7\n"
    cell = kernel.run(
        f"from clusterkit import Cluster\n{train}with Cluster(train, args=['hi'], workers=2) as cluster:\n"
        "    result = cluster.wait()\nresult.returns"
    )
    tabs, panes, returns = cell.outputs
    assert tabs["data"]["text/plain"] == "all worker:0 worker:1"
    assert "worker:1 │ hi <b>" in panes["data"]["text/plain"]
    assert panes["data"]["text/plain"].count("succeeded after") == 1
    assert returns["data"]["text/plain"] == "{'worker:0': 7, 'worker:1': 7}"
    (shown,) = kernel.run("result").outputs
    assert len(shown["data"]["text/plain"]) < 200
    assert shown["data"]["text/html"].startswith("<pre>✔ run")
    (shown,) = kernel.run("cluster").outputs
    assert "worker:1 is down (attempt 1); it exited with code 0" in shown["data"]["text/html"]


def test_a_flood_stays_small(kernel: Kernel) -> None:
    """A megabyte a second from each of two workers: few updates, small ones; the kernel's control channel answers."""
    running = kernel.start(f"%cluster up --workers 2 {CHILDREN / 'floods.py'} 5")
    running.wait_for("xxx")
    kernel.client.control_channel.send(kernel.client.session.msg("kernel_info_request"))
    assert kernel.client.get_control_msg(timeout=0.5)["msg_type"] == "kernel_info_reply"
    cell = running.end()
    assert not cell.failed
    assert len(cell.outputs) == 2
    assert len(str(cell.outputs)) < 200_000
    assert cell.largest < 150_000
    assert len(cell.updates) > 3
    assert max(b - a for a, b in pairwise(cell.updates)) < 3  # live, however busy the machine is
    assert sum(b - a < 0.05 for a, b in pairwise(cell.updates)) < len(cell.updates) / 4
    assert len(cell.updates) < 11 * (cell.updates[-1] - cell.updates[0]) + 3


def test_jupyters_terminal_gets_text_alone(kernel: Kernel) -> None:
    """`!` has a terminal that shows neither a status line nor colors whole."""
    cell = kernel.run(f"import sys\n!{{sys.executable}} -m clusterkit up --workers 2 {CHILDREN / 'floods.py'} 0")
    assert "succeeded after" in cell.text
    assert "\x1b" not in cell.text
    assert "\r" not in cell.text.replace("\r\n", "\n")
