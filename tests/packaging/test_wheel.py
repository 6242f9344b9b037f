"""The wheel: built, installed into an environment that has no clusterkit, and used from an empty directory."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import clusterkit
from benchmarks import release
from tests.environment import ROOT, clean_environment
from tests.support import module_at

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(180)]
BUILDING = 120.0  # seconds
# As `pip wheel --no-build-isolation` does it, without pip's copy of the checkout.
BUILD = "import sys; from hatchling import build; print(getattr(build, sys.argv[1])(sys.argv[2]))"


def built(kind: str, place: Path) -> Path:
    """The wheel or the source distribution of this checkout."""
    words = [sys.executable, "-c", BUILD, f"build_{kind}", str(place)]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=BUILDING, check=True)
    return place / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return built("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the wheel, and with what is installed for the tests, but for the checkout.

    A directory that a .pth file names is searched, and the .pth files in it, such as the checkout's, are ignored.
    """
    place = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], timeout=BUILDING, check=True)
    python = place / "bin/python"
    pip = ("-m", "pip", "--python", python, "--disable-pip-version-check")
    install = ("install", "--quiet", "--no-deps", "--no-index", wheel)
    subprocess.run([sys.executable, *pip, *install], timeout=BUILDING, check=True)
    [packages] = place.glob("lib/python3*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def ran(python: Path, place: Path, *words: str, deadline: float = 60.0) -> str:
    """What a command of that environment printed in a directory; it has to succeed."""
    environment = clean_environment(place / "home")
    del environment["PYTHONPATH"]
    work = place / "work"
    work.mkdir(exist_ok=True)
    done = subprocess.run(
        [python.parent / words[0], *words[1:]],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        timeout=deadline,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_says_what_it_is(wheel: Path) -> None:
    """Another project has the name `clusterkit`; nothing is asked for under it."""
    said = release.metadata_of(wheel)
    assert wheel.name == f"tf_clusterkit-{clusterkit.__version__}-py3-none-any.whl"
    assert (said["Name"], said["Version"]) == ("tf-clusterkit", clusterkit.__version__)
    assert said["Requires-Python"] == ">=3.11"
    assert said["License-Expression"] == "Apache-2.0"
    assert {"Typing :: Typed", "Framework :: Pytest", "Operating System :: POSIX :: Linux"} <= {
        *(said.get_all("Classifier") or ())
    }
    assert not [wanted for wanted in said.get_all("Requires-Dist") or () if wanted.startswith("clusterkit")]


def test_its_description_has_no_link_that_leads_nowhere(wheel: Path) -> None:
    """An index shows README away from the repository. The version of the citation is the package's."""
    html, nowhere = release.rendered(str(release.metadata_of(wheel).get_payload()))
    assert nowhere == []
    assert html.count("<h2>") == len(re.findall("^## ", (ROOT / "README.md").read_text(), re.M))
    assert "<table>" in html
    assert f"\nversion: {clusterkit.__version__}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize(
    ("text", "without", "with_it"),
    [
        ("![a b](docs/a.svg)", "", "![a b](https://x.org/r/raw/HEAD/docs/a.svg)"),
        ("see [`it`](docs/a.md#b).", "see `it`.", "see [`it`](https://x.org/r/blob/HEAD/docs/a.md#b)."),
        ("[here](#there) [x](https://y.org)",) * 3,
    ],
)
def test_links_lead_to_the_repository_that_is_named(text: str, without: str, with_it: str) -> None:
    """Without one, what is left is the text."""
    made = module_at(ROOT / "docs/description.py").description
    assert (made(text, None), made(text, "https://x.org/r/")) == (without, with_it)


def test_a_package_that_does_not_install_is_a_failure(tmp_path: Path) -> None:
    """`make dist` says which command failed, and why."""
    (tmp_path / "broken-1-py3-none-any.whl").write_bytes(b"no archive")
    [failure] = release.tried(sys.executable, tmp_path / "broken-1-py3-none-any.whl", tmp_path)
    assert "pip install" in failure
    assert "broken-1" in failure.partition(": ")[2]


def test_it_has_the_package_and_the_workloads(wheel: Path) -> None:
    """Every file of both; the mark that the package has types; nothing else that would be importable."""
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "clusterkit").rglob("*.py")}
    workloads = {f"clusterkit/_examples/{path.name}" for path in (ROOT / "workloads").iterdir() if path.is_file()}
    starter = {f"clusterkit/starter/{name}" for name in ("job.toml", "train.py", "test_train.py")}
    assert modules | workloads | starter | {"clusterkit/py.typed"} <= names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"clusterkit"}


def test_the_source_distribution_is_what_is_needed_to_build_and_test(tmp_path: Path) -> None:
    """From it, the wheel can be built, and `make test` runs."""
    with tarfile.open(built("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "Makefile",
        "clusterkit/py.typed",
        "workloads/ps_train.py",
        "tests/test_house.py",
    } <= names


def test_the_command_works_where_nothing_else_is(python: Path, tmp_path: Path) -> None:
    """It is the wheel's, not the checkout's."""
    where = "import clusterkit, clusterkit.examples as e; print(clusterkit.__file__, e.example_directory())"
    for path in ran(python, tmp_path, "python", "-c", where).split():
        assert path.startswith(str(python.parent.parent))
    assert ran(python, tmp_path, "clusterkit", "--version").split()[-1] == clusterkit.__version__
    (tmp_path / "work/train.py").write_text("print('trained')\n")
    assert "trained" in ran(python, tmp_path, "clusterkit", "up", "train.py")
    assert "clusterkit up -f job.toml" in ran(python, tmp_path, "clusterkit", "init", "new")
    assert "2 workers" in ran(python, tmp_path, "clusterkit", "config", "-f", "new/job.toml")
    assert "ps_train.py" in ran(python, tmp_path, "clusterkit", "init", "--example", "ps_train", "example")


def test_the_pytest_plugin_is_found(python: Path, tmp_path: Path) -> None:
    """By its entry point: nobody names it."""
    assert "--cluster-timeout" in ran(python, tmp_path, "python", "-m", "pytest", "--help")


@pytest.mark.tensorflow
def test_the_demo_runs_from_the_wheel(python: Path, tmp_path: Path) -> None:
    """The job of `make demo`, for a few steps; what the program imports is copied with it."""
    ran(python, tmp_path, "clusterkit", "init", "--example", "ps_train")
    job = ("clusterkit", "up", "--workers", "2", "--ps", "1", "ps_train.py", "--steps", "30")
    assert "step 30" in ran(python, tmp_path, *job, deadline=150)
