"""The Dockerfile fits the manifests, as far as that can be seen without building it."""

from __future__ import annotations

import re

from clusterkit.engines.kubernetes.pods import SCRATCH, USER
from tests.support import ROOT

DOCKERFILE = (ROOT / "clusterkit/engines/kubernetes/Dockerfile").read_text()


def test_its_base_has_a_version() -> None:
    """To the patch release, and one that clusterkit supports."""
    bases = re.findall(r"^FROM (\S+)$", DOCKERFILE, re.M)
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.1[123]\.\d+-slim-\w+", bases[0])


def test_its_user_is_the_pods() -> None:
    """The last one, who runs the commands; its home is what can be written."""
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.M) == [f"{USER}:{USER}"]
    assert f"--uid {USER} --user-group --no-create-home --home-dir {SCRATCH} " in DOCKERFILE


def test_it_installs_the_wheel_with_what_agents_need() -> None:
    """The distribution's name is the wheel's."""
    assert 'name = "tf-clusterkit"' in (ROOT / "pyproject.toml").read_text()
    assert '"$(echo /tmp/wheel/tf_clusterkit-*.whl)[engines]"' in DOCKERFILE
