"""Tries what `make dist` has built: `python -m benchmarks.release` installs it on every claimed Python.

The wheel and the source distribution each get an empty environment, with the packages that they require and no others,
and run a job there. A claimed Python that this machine does not have is named. Before that, the page that the metadata
make is rendered.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

from benchmarks.matrix.environments import find_pythons
from benchmarks.matrix.versions import Version
from tests.environment import clean_environment
from tests.support import ROOT

DIST = ROOT / "dist"
PATIENCE = 600.0  # seconds for an installation
CLAIM = "Programming Language :: Python :: "
JOB = (  # what an environment has to do
    ("clusterkit", "--version"),
    ("clusterkit", "init", "project"),
    ("clusterkit", "config", "-f", "project/job.toml", "--tasks"),
    ("clusterkit", "up", "--workers", "2", "hello.py"),
    ("clusterkit", "show"),
)


def claimed() -> list[Version]:
    """The Pythons that pyproject.toml claims."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [line.removeprefix(CLAIM).split(".") for line in project["classifiers"] if line.startswith(f"{CLAIM}3.")]
    return [(int(major), int(minor)) for major, minor in names]


def metadata_of(wheel: Path) -> Message:
    """METADATA, which says what the wheel is."""
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def rendered(description: str) -> tuple[str, list[str]]:
    """The description as the HTML of a package index, and the links and pictures that lead nowhere there."""
    from markdown_it import MarkdownIt
    from readme_renderer.clean import clean

    html = clean(MarkdownIt("commonmark").enable("table").render(description)) or ""
    links = re.findall(r'(?:href|src)="([^"]*)"', html)
    return html, [link for link in links if not re.match(r"https?:|#|mailto:", link)]


def tried(python: str, package: Path, place: Path) -> Iterator[str]:
    """Install a package into an empty environment, run a job there, and yield each failure."""
    environment = place / "environment"
    done = [_run(python, "-m", "venv", str(environment))]
    done.append(_run(str(environment / "bin/python"), "-m", "pip", "install", "--quiet", str(package)))
    home = clean_environment(place / "home")
    del home["PYTHONPATH"]
    (place / "hello.py").write_text("print('hello')\n")
    if not any(one.returncode for one in done):
        for words in JOB:
            done.append(_run(str(environment / "bin" / words[0]), *words[1:], cwd=place, env=home))
    yield from (f"{' '.join(one.args)}: {(one.stdout + one.stderr).strip()[-2000:]}" for one in done if one.returncode)


def _run(*words: str, cwd: Path = ROOT, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, cwd=cwd, env=env)


def main() -> int:
    """See the module's docstring."""
    [wheel], [source] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    html, nowhere = rendered(str(metadata_of(wheel).get_payload()))
    print(f"{wheel.name}: the description has {html.count('<table>')} tables and {html.count('<h2>')} chapters.")
    for link in nowhere:
        print(f"This link leads nowhere on a package index: {link}")
    failures, pythons = len(nowhere), find_pythons(())
    for version in claimed():
        name = "Python {}.{}".format(*version)
        for package in (wheel, source) if version in pythons else ():
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="release-") as place:
                failed = [*tried(pythons[version], package, Path(place))]
            print(f"{name}, {package.name}: {'failed' if failed else 'works'} ({time.monotonic() - began:.0f} s)")
            print(*failed, sep="\n", end="\n" if failed else "", flush=True)
            failures += bool(failed)
        if version not in pythons:
            print(f"{name}: not on this machine, so not tried.")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
