"""Three hosts with an sshd each, and a fourth one with the user's ssh, on which runs are started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.ssh.hosts import SshHosts, why_no_ssh


@pytest.fixture(scope="session")
def all_ssh_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    """One set for all tests of this process. They use `ssh`."""
    if (why := why_no_ssh()) is not None:
        pytest.skip(f"no sshd here: {why}")
    hosts = SshHosts(tmp_path_factory.mktemp("ssh"))
    yield hosts
    hosts.end()


@pytest.fixture
def ssh(all_ssh_hosts: SshHosts, tmp_path: Path) -> Iterator[SshHosts]:
    """The hosts, up and with their own settings; afterwards no process of a run may be left on any."""
    all_ssh_hosts.home = tmp_path
    yield all_ssh_hosts
    all_ssh_hosts.clear()
