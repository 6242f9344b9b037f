"""The engines' table: what is imported for which job, and what an unknown name is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusterkit.engines.base import engine_named
from clusterkit.job.options import GivenOptions, JobOptions
from clusterkit.job.spec import describe
from clusterkit.words.errors import ClusterkitError


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "engines"), [((), set()), (("--hosts", "1"), {"local"})], ids=["this machine", "a stand-in"]
)
def test_a_job_imports_no_engine_but_its_own(
    clusterkit: Callable[..., Any], tmp_path: Path, words: tuple[str, ...], engines: set[str]
) -> None:
    """Whatever its processes import, from the command to the end of the run."""
    program = tmp_path / "program.py"
    program.write_text("")
    run = clusterkit("up", *words, program, env={"PYTHONVERBOSE": "1"})
    assert run.wait(60) == 0, run.output[-3000:]
    modules = set(re.findall(r"import '(clusterkit\.[\w.]+)'", run.output))
    assert "clusterkit.supervisor.launch" in modules
    found = {name.split(".")[2] for name in modules if name.startswith("clusterkit.engines.")}
    assert found - {"options", "base"} == engines
    assert engines or found == {"options"}


@pytest.mark.parametrize("name", ["", "os", "..words", "slurm.client", "x" * 9000, "\x1b[2J"])
def test_an_unknown_engine_is_an_error(name: str) -> None:
    """Of a damaged or hostile job.json, for example: nothing is imported by such a name."""
    with pytest.raises(ClusterkitError, match="Unknown engine") as found:
        engine_named(name)
    assert len(str(found.value)) < 200
    assert str(found.value).isprintable()


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        ({"engine": "slurm", "hosts": 2, "time": 60.0}, []),
        ({"time": 60.0, "partition": "p"}, ["--time is for Slurm. Add --engine slurm.",
                                            "--partition is for Slurm. Add --engine slurm."]),
        ({"engine": "slurm", "hosts": 2, "host": ["a"]}, ["--host is for SSH. Add --engine ssh."]),
        ({"engine": "slurm"}, ["--engine slurm is for a job on several hosts. Add --hosts 2."]),
        ({"engine": "agents"}, ["--engine agents is for a job on several hosts. Add --hosts 2."]),
    ],
)  # fmt: skip
def test_an_option_is_for_its_engine(options: JobOptions, problems: list[str]) -> None:
    """The table has the words for it."""
    assert describe(GivenOptions({"program": "train.py", "workers": 2, **options})).problems == problems
