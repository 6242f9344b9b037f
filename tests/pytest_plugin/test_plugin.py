"""The pytest plugin, in test sessions of its own."""

from __future__ import annotations

import os
import re
import tempfile
import textwrap
from pathlib import Path

import pytest

from tests.pytest_plugin.sessions import run
from tests.support import CHILDREN, processes_of

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.process, pytest.mark.slow]
PASSES = """
    import pytest

    @pytest.mark.cluster(workers=2, ps=1)
    def test_training_survives_a_kill(cluster, tmp_path):
        run = cluster(ROLES, args=["--steps", 60, "--until", tmp_path / "go"])
        run.tasks["worker:1"].kill()
        run.wait_for_event("Spawned", task="worker:1", attempt=2)
        (tmp_path / "go").touch()
        assert run.wait_for_step(10, task="chief:0") >= 10
        assert run.wait().last_step == 60
"""


def test_a_test_kills_a_worker_and_passes(session: pytest.Pytester) -> None:
    """The marker's options apply, and nothing is left, not even the run's directory."""
    run(session, PASSES).assert_outcomes(passed=1)
    assert processes_of(session.path) == {}


def test_a_test_without_its_fault_fails(session: pytest.Pytester) -> None:
    """A test whose fault was never injected fails, unless it ended its run early."""
    source = """
        def test_it(cluster):
            run = cluster(ROLES, workers=1, args=["--steps", 5], fault=["kill worker:0 @ step=1000"])
            assert run.wait().last_step == 5

        def test_another(cluster):
            cluster(ROLES, workers=1, args=["--steps", 100000], fault=["kill worker:0 @ 1h"]).wait_for_step(1)
    """
    outcome = run(session, source)
    outcome.assert_outcomes(passed=2, errors=1)
    outcome.stdout.fnmatch_lines(
        [
            "*The test proves nothing: a fault was never injected.*",
            "*kill worker:0 @ step=1000: step 1000 was never reached; the last step was 5. The run: */runs/*",
        ]
    )
    (named,) = set(re.findall(r"The run: (/\S*?)\.?\n", outcome.stdout.str()))
    assert Path(named, "journal.jsonl").is_file()  # the directory that the message names is kept


def test_programs_are_found_beside_the_test_and_in_rootdir(session: pytest.Pytester) -> None:
    """From any current directory, the test's place first; a job file too; the message names every place."""
    source = """
        import pytest
        from clusterkit import BadJob

        def test_beside(cluster):
            assert cluster("mine.py").wait() and "beside" in cluster.started[0].tasks["worker:0"].logs()

        def test_rootdir(cluster):
            assert cluster("jobs/other.py").wait()

        def test_file(cluster):
            assert cluster(file="job.toml").wait()

        def test_current(cluster, monkeypatch, tmp_path):
            monkeypatch.chdir(tmp_path)
            (tmp_path / "new.py").write_text("")
            assert cluster("new.py").wait()

        def test_missing(cluster):
            cluster("gone.py")
    """
    inner, jobs, here = session.mkdir("tests"), session.mkdir("jobs"), session.mkdir("here")
    (inner / "test_it.py").write_text(textwrap.dedent(source))
    (inner / "mine.py").write_text("print('beside')")
    (session.path / "mine.py").write_text("print('not this one')")
    (jobs / "other.py").write_text("")
    (inner / "job.toml").write_text(f"program = {str(jobs / 'other.py')!r}\n")
    (session.path / "pytest.ini").write_text("[pytest]")
    os.chdir(here)  # pytester changes back
    outcome = session.runpytest_subprocess("-p", "clusterkit.pytest_plugin", inner, timeout=60)
    outcome.assert_outcomes(passed=4, failed=1)
    outcome.stdout.fnmatch_lines([
        f"E *BadJob: There is no program gone.py. It was looked for in {here} and in PATH.",
        f"E *Relative paths were looked for in {inner} and {session.path} too.",
    ])  # fmt: skip


def test_what_a_test_leaves_behind_fails_it_by_name(session: pytest.Pytester) -> None:
    """A forgotten run, a process marked as a task and its listening port are reported by name and ended."""
    source = """
        import json, os, subprocess, sys, textwrap
        from clusterkit import Cluster

        LISTENER = '''
        import socket
        with socket.create_server(("127.0.0.1", 0)) as server:
            print(server.getsockname()[1], flush=True)
            input()
        '''

        def test_run(cluster):
            Cluster(ROLES, run_id="forgotten", args=["--steps", 10000])

        def test_port(cluster):
            directory = cluster.home / "runs" / "old"
            directory.mkdir(parents=True)
            env = {**os.environ, "CLUSTERKIT_TASK": "worker:1", "CLUSTERKIT_RUN_DIR": str(directory)}
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            left = subprocess.Popen([sys.executable, "-c", textwrap.dedent(LISTENER)], env=env, **pipes)
            job = {"endpoints": {"worker:1": "localhost:" + left.stdout.readline().decode().strip()}}
            (directory / "job.json").write_text(json.dumps(job))
            test_port.left = left  # or the pipes would be closed, and it would end
    """
    outcome = run(session, source)
    outcome.assert_outcomes(passed=2, errors=2)
    outcome.stdout.fnmatch_lines([
        "The run forgotten is still live.",
        "The process * of worker:0 (run forgotten) still runs.",
        "The process * of worker:1 (run old) still runs.",
        "The process * still listens on port *, which was worker:1's in the run old.",
    ])  # fmt: skip
    assert processes_of(session.path) == {}


def test_the_timeout_bounds_waits_and_runs(session: pytest.Pytester) -> None:
    """The run times out first, since its report says more; `patience` sets a different limit for waits."""
    source = """
        import pytest
        from clusterkit import WaitTimeout

        def test_run(cluster):
            cluster(ROLES, args=["--steps", 10000]).wait()

        def test_wait(cluster):
            with pytest.raises(WaitTimeout):
                cluster(ROLES, args=["--steps", 10000], timeout="1m", patience=0.5).wait_for_step(10000)
    """
    outcome = run(session, source, "--cluster-timeout", "1s")
    outcome.assert_outcomes(passed=1, failed=1)
    outcome.stdout.fnmatch_lines(["*ClusterFailed: The run * timed out*"])
    wrong = run(session, source, "--cluster-timeout", "soon")
    wrong.stderr.fnmatch_lines(["*--cluster-timeout: *soon*"])


def test_under_xdist_tests_do_not_disturb_each_other(session: pytest.Pytester) -> None:
    """Two processes of tests, each with its own homes; sections and kept directories come through."""
    source = """
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_it(cluster, number):
            run = cluster(ROLES, workers=2, run_id="same", args=["--steps", 10], restart="never")
            run.wait()
            assert number != 3
    """
    outcome = run(session, source, "-n", "2")
    outcome.assert_outcomes(passed=3, failed=1)
    outcome.stdout.fnmatch_lines(["2 workers*", "*- clusterkit: result -*", "*- clusterkit: worker:0 attempt 1 log -*"])


def test_run_directories_are_kept_where_that_is_asked_for(
    session: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary prints their paths."""
    source = """
        def test_it(cluster):
            cluster(ROLES, args=["--steps", 3]).wait()
    """
    with tempfile.TemporaryDirectory() as place:
        monkeypatch.setenv("TMPDIR", place)
        outcome = run(session, source, "--cluster-keep", "-n", "1")
        outcome.stdout.fnmatch_lines(["*clusterkit: run directories that were kept*"])
        (kept,) = re.findall(r"^/.*clusterkit-test_it-\S+$", outcome.stdout.str(), re.MULTILINE)
        assert list(Path(kept).glob("runs/*/tasks/worker:0/attempt-1.log"))
        assert Path(kept).is_relative_to(place)


def test_an_installed_plugin_that_is_named_again_is_one(
    session: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry point has the module's name, so pytest loads the plugin only once."""
    info = session.mkdir("installed") / "some-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pytest11]\nclusterkit.pytest_plugin = clusterkit.pytest_plugin\n")
    monkeypatch.syspath_prepend(str(info.parent))
    monkeypatch.setenv("PYTHONPATH", str(info.parent), prepend=":")
    outcome = run(session, "def test_it(cluster): pass")
    outcome.assert_outcomes(passed=1)


def test_the_marker_takes_keywords_only(session: pytest.Pytester) -> None:
    """The closest marker wins; positional arguments are an error."""
    source = """
        import pytest
        pytestmark = pytest.mark.cluster(workers=3, ps=0)

        @pytest.mark.cluster(workers=2)
        def test_closest(cluster):
            assert list(cluster(ROLES, args=["--steps", 2]).tasks) == ["worker:0", "worker:1"]

        @pytest.mark.cluster(2)
        def test_wrong(cluster):
            pass
    """
    outcome = run(session, source)
    outcome.assert_outcomes(passed=1, errors=1)
    outcome.stdout.fnmatch_lines(["*takes keywords, such as workers=2, not (2,)*"])


def test_a_job_whose_tasks_trained_alone_fails_its_test(session: pytest.Pytester) -> None:
    """The test has passed, and proves nothing about distributed training; independent tasks may train alone."""
    source = """
        def test_it(cluster):
            assert cluster(ALONE, workers=2).wait().ok

        def test_another(cluster):
            assert cluster(ALONE, workers=2, restart_scope="task").wait().undistributed is None
    """
    outcome = run(session, source.replace("ALONE", repr(str(CHILDREN / "alone.py"))))
    outcome.assert_outcomes(passed=2, errors=1)
    outcome.stdout.fnmatch_lines(
        [
            "*The training was not distributed.*",
            "*worker:0 and worker:1 never connected: each trained alone. * The run: */runs/*. The program needs:",
            "*    with strategy.scope():",
        ]
    )
