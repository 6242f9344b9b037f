"""The container for other systems, as far as that can be seen without building it."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from typing import Any

import click

from clusterkit.cli import cli
from tests.support import ROOT

PLACE = ROOT / "docs/container"
DOCKERFILE = (PLACE / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_its_base_is_a_python_that_is_claimed() -> None:
    """To the patch release; the same as that of the pods."""
    [base] = re.findall(r"^FROM (\S+)$", DOCKERFILE, re.M)
    [minor] = re.findall(r"^python:(3\.\d+)\.\d+-slim-\w+$", base)
    assert f"Programming Language :: Python :: {minor}" in PROJECT["classifiers"]
    assert f"FROM {base}\n" in (ROOT / "clusterkit/engines/kubernetes/Dockerfile").read_text()


def test_it_installs_the_wheel_with_extras_that_exist() -> None:
    """The distribution's name is the wheel's; TensorFlow is one that is tested."""
    [(name, extras)] = re.findall(r'"\$\(echo /tmp/wheel/(\w+)-\*\.whl\)\[([\w,]+)\]"', DOCKERFILE)
    assert name == PROJECT["name"].replace("-", "_")
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()
    [tensorflow] = re.findall(r'^ARG TENSORFLOW="tensorflow==(\d+\.\d+)\.\*"$', DOCKERFILE, re.M)
    assert f"| {tensorflow}." in (ROOT / "docs/versions.md").read_text()


def test_runs_are_kept_in_the_volume() -> None:
    """The Dockerfile, the devcontainer and the command on the page mean the same directory."""
    [home] = re.findall(r"^ENV CLUSTERKIT_HOME=(\S+)$", DOCKERFILE, re.M)
    assert f"VOLUME {home}\n" in DOCKERFILE
    assert [f"target={home}" in mount for mount in devcontainer()["mounts"]] == [True]
    assert f"-v clusterkit:{home} clusterkit\n" in (ROOT / "docs/container.md").read_text()


def test_the_devcontainer_names_a_file_and_a_command_that_exist() -> None:
    """Its init process is what docker's --init is."""
    said = devcontainer()
    assert (PLACE / said["build"]["dockerfile"]).is_file()
    assert said["init"] is True
    program, name, *words = shlex.split(said["postCreateCommand"])
    command = cli.get_command(click.Context(cli), name)
    assert program in PROJECT["scripts"]
    assert command is not None
    command.make_context(name, words)


def devcontainer() -> dict[str, Any]:
    """The file that VS Code reads."""
    read: dict[str, Any] = json.loads((PLACE / "devcontainer.json").read_text())
    return read
