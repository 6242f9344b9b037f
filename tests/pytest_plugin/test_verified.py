"""The fixture verifies each job if pytest's configuration says so, and fails the test of one that differs."""

from __future__ import annotations

import pytest

from tests.pytest_plugin.sessions import run
from tests.support import CHILDREN

pytest_plugins = ["pytester"]
PROGRAM = repr(str(CHILDREN / "verified.py"))


@pytest.mark.long
@pytest.mark.tensorflow
@pytest.mark.timeout(300)
def test_a_job_that_differs_fails_its_test(session: pytest.Pytester) -> None:
    """Although the test itself has passed; the default is off, and an argument of the fixture wins."""
    session.makeini("[pytest]\ncluster_verify = 3\n")
    source = """
        def test_flawed(cluster):
            assert cluster(PROGRAM, args=["local_mean"], workers=2).wait().exit_code == 3

        def test_off(cluster):
            assert cluster(PROGRAM, args=["local_mean"], workers=2, verify=False).wait().verification is None
    """
    outcome = run(session, source.replace("PROGRAM", PROGRAM))
    outcome.assert_outcomes(passed=2, errors=1)
    outcome.stdout.fnmatch_lines(
        [
            "*The workers do not compute what one process does.*",
            "*not verified: the first 3 steps differ from those of one process*",
            "*The gradients are 2 times too large with 2 workers*",
        ]
    )


@pytest.mark.process
def test_a_value_that_is_none(session: pytest.Pytester) -> None:
    """The problem is that of the option, in the first test that starts a cluster."""
    session.makeini("[pytest]\ncluster_verify = often\n")
    outcome = run(session, f"def test_it(cluster): cluster({PROGRAM}, workers=2)")
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["*'often' is not a value of --verify*"])
