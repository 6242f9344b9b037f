"""What the plugin adds to the report of a failed test, and that nothing is in it twice."""

from __future__ import annotations

import pytest

from tests.pytest_plugin.sessions import run

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_a_failing_test_shows_cause_and_logs(session: pytest.Pytester) -> None:
    """The exception has the cause with the end of its log; other logs are sections. Clusterkit's frames are hidden."""
    source = """
        def test_it(cluster):
            run = cluster(ROLES, workers=2, restart="never", args=["--steps", 10000])
            for task in run.tasks:
                run.wait_for_step(1, task=task)
            run.tasks["worker:1"].kill()
            run.wait_for_step(10000)
    """
    outcome = run(session, source)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines([
        ">*run.wait_for_step(10000)",
        "E * clusterkit.ClusterFailed: The run was over before step 10000.",
        "E *Cause: worker:1 was killed by SIGKILL (attempt 1)",
        "E *  │ worker:1 goes from step *",
        "*- clusterkit: worker:0 attempt 1 log -*",
        "worker:0 goes from step 0 to 10000",
    ])  # fmt: skip
    outcome.stdout.no_fnmatch_line("*def wait_for_step*")
    for once in ("Cause: worker:1", "worker:1 goes from step", "✘ run", "Everything of this run"):
        assert outcome.stdout.str().count(once) == 1, once


def test_a_run_that_the_exception_does_not_describe_has_a_section(session: pytest.Pytester) -> None:
    """The result of one that succeeded, the cause of one that failed; nothing that is in another section too."""
    source = """
        import pytest
        from clusterkit import ClusterFailed

        def test_it(cluster):
            good = cluster(ROLES, run_id="good", args=["--steps", 5])
            bad = cluster(ROLES, run_id="bad", restart="never", args=["--fail", "worker:0:1:3:7"])
            good.wait()
            with pytest.raises(ClusterFailed):
                bad.wait()
            assert bad.result.ok
    """
    outcome = run(session, source)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines([
        "*- clusterkit: result (run good) -*",
        "✔ run good succeeded *",
        "*- clusterkit: worker:0 attempt 1 log (run good) -*",
        "worker:0 is done",
        "*- clusterkit: cause (run bad) -*",
        "✘ run bad failed *",
        "*Cause: worker:0 exited with code 7*",
    ])  # fmt: skip
    assert outcome.stdout.str().count("worker:0 goes from step 0 to 20") == 1
    outcome.stdout.no_fnmatch_line("*log (run bad)*")


def test_a_failing_test_shows_why(session: pytest.Pytester) -> None:
    """The explanation is in the exception, above the end of the log."""
    source = """
        from pathlib import Path

        def test_it(cluster):
            Path("train.py").write_text("raise RuntimeError('Collective ops must be configured at program startup')")
            cluster("train.py", restart="never").wait()
    """
    outcome = run(session, source)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines([
        "E *Cause: worker:0 exited with code 1 (attempt 1)",
        "E *Why: MultiWorkerMirroredStrategy was created after*",
        "E *│ RuntimeError: Collective ops must be configured at program startup",
    ])  # fmt: skip


def test_a_wait_that_took_too_long_describes_the_run(session: pytest.Pytester) -> None:
    """Each task once, in the exception, also if another one came of it; earlier failures are in the section."""
    source = """
        def test_it(cluster):
            run = cluster(ROLES, restart_backoff=0.1, args=["--steps", 10000, "--fail", "worker:0:1:3:7"])
            run.wait_for_step(1, attempt=2)
            try:
                run.wait_for_step(10000, timeout=0.2)
            except TimeoutError as error:
                raise AssertionError("too slow") from error
    """
    outcome = run(session, source)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines([
        "E *WaitTimeout: Waited for step 10000 *",
        "E * worker:0 is running (attempt 2)*",
        "*- clusterkit: the run so far -*",
        "  worker:0 exited with code 7 (attempt 1)",
    ])  # fmt: skip
    assert outcome.stdout.str().count("worker:0 is running") == 1


def test_a_test_that_fails_while_the_run_goes_on_shows_where_it_is(session: pytest.Pytester) -> None:
    """There is no result yet; the equal logs of both attempts are one section."""
    source = """
        def test_it(cluster):
            run = cluster(ROLES, workers=1, restart_backoff=0.1, args=["--steps", 10000, "--fail", "worker:0:1:3:7"])
            run.wait_for_step(1, attempt=2)
            assert run.tasks["worker:0"].pid is None
    """
    outcome = run(session, source)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines([
        "*- clusterkit: the run so far -*",
        "The run was still active.",
        "  worker:0 is running (attempt 2), at step *",
        "  worker:0 exited with code 7 (attempt 1)",
        "*- clusterkit: worker:0 attempt 1, worker:0 attempt 2 log -*",
        "worker:0 goes from step 0 to 10000",
    ])  # fmt: skip


def test_a_report_that_cannot_be_complete_does_not_end_the_session(session: pytest.Pytester) -> None:
    """Logs that are gone, an object that can't be unpickled, and an exception that is its own cause."""
    source = """
        import pytest

        class Unreadable:
            def __reduce__(self):
                return int, ("seven",)

        @pytest.fixture
        def fails_late():
            yield
            raise RuntimeError("after the cluster has ended")

        def test_log(fails_late, cluster):
            run = cluster(ROLES, args=["--steps", 5])
            assert run.wait() and run.tasks["worker:0"].attempts

        def test_fault(cluster):
            run = cluster(ROLES, args=["--steps", 5], fault=["kill worker:0 @ step=1000"])
            assert run.wait() and run.tasks["worker:0"].attempts

        def test_returned(cluster):
            cluster(Unreadable).wait()

        def test_own_cause(cluster):
            cluster(ROLES, args=["--steps", 5]).wait()
            error = ValueError("mine")
            raise error from error
    """
    outcome = run(session, source)
    outcome.assert_outcomes(passed=2, failed=2, errors=3)
    outcome.stdout.no_fnmatch_line("*INTERNALERROR*")
    outcome.stdout.fnmatch_lines(["*What worker:0 returned can't be read here: ValueError: *'seven'*"])


def test_a_stall_is_told_before_the_tests_own_limit(session: pytest.Pytester) -> None:
    """After a third of it, with the stack of the task that is stuck."""
    source = """
        def test_it(cluster, tmp_path):
            (tmp_path / "stuck.py").write_text(
                "import time\\nfrom clusterkit import training\\n"
                "for step in range(20):\\n    training.report(step=step)\\n    time.sleep(0.05)\\ntime.sleep(600)\\n"
            )
            cluster(tmp_path / "stuck.py", timeout="9s").wait()
    """
    outcome = run(session, source)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines([
        "E *ClusterFailed: * timed out: the job took longer than its timeout of 9 s.",
        "*- clusterkit: stall -*",
        "No task has reported progress for *: worker:0 is at step 19 and sleeps (time.sleep) at stuck.py:6.*",
        "*stuck.py:6 in <module>",
    ])  # fmt: skip


def test_the_summary_has_one_line_in_ci_and_logs_have_no_noise(
    session: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pytest shows the whole message; all of it is above. A protobuf that TensorFlow logs is left out."""
    monkeypatch.setenv("CI", "1")
    noise = r"I0000 00:00:1.0 1 master.cc:1] SessionOptions: device_count {\\n  key: 1\\n}\\n"
    source = f"""
        def test_it(cluster, tmp_path):
            (tmp_path / "fails.py").write_text(
                "import os, sys\\nprint('{noise}' * 30 + 'mine')\\n"
                "sys.exit('worker:1' == os.environ['CLUSTERKIT_TASK'])"
            )
            cluster(tmp_path / "fails.py", workers=2, restart="never").wait()
    """
    text = run(session, source).stdout.str()
    summary = text.partition("short test summary info")[2].splitlines()
    assert next(line for line in summary if "test_it" in line).endswith(
        "worker:1 exited with code 1, although worker:0 exited with code 0."
    )
    assert len(summary) == 3
    log = text.partition("worker:0 attempt 1 log")[2].partition("short test summary")[0]
    assert [line for line in log.splitlines() if line.strip("-= ")] == ["mine"]
