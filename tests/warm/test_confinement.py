"""Attributes that a client inherits and a warm server can't adopt: every difference is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.warm import confinement
from tests.environment import clean_environment
from tests.servers import Warm, short_home
from tests.strangers import needs_root
from tests.support import CHILDREN, ROOT

pytestmark = [pytest.mark.process, pytest.mark.timeout(60)]

CHANGED = {
    "groups": "other groups",
    "gid": "other user or group ids",
    "uid": "other user or group ids",
    "bounding": "other capabilities",
    "no_new_privs": "another no_new_privs",
    "seccomp": "another seccomp filter",
    "oom_score_adj": "another oom_score_adj",
    "coredump_filter": "another filter for core dumps",
    "securebits": "other securebits",
    "timer_slack": "another timer slack",
    "memory_errors": "another policy for memory errors",
    "executable": "another policy for executable memory",
    "huge_pages": "another setting of transparent huge pages",
    "speculation": "other speculation controls",
    "personality": "another personality",
    "scheduling": "another scheduling policy",
    "disk": "another I/O priority",
    "memory": "another memory policy",
    "keyring": "another session keyring",
    "root": "another root directory",
    "mounts": "another mnt namespace",
    "network": "another net namespace",
    "pids": "another pid namespace",
    "host_name": "another uts namespace",
    "ipc": "another ipc namespace",
    "times": "another time namespace",
}


@pytest.fixture
def home() -> Iterator[Path]:
    """Sockets are in it."""
    with short_home() as path:
        yield path


@contextmanager
def confined(what: str) -> Iterator[tuple[int, Any]]:
    """The pid of a child that has changed an attribute, and its `own_attributes`."""
    words = [sys.executable, "-S", str(CHILDREN / "confined.py"), str(ROOT), what]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        yield child.pid, json.loads(child.stdout.readline())


@needs_root
@pytest.mark.parametrize("what", CHANGED)
def test_whatever_differs_is_named(what: str) -> None:
    """The server does not start a run of such a client, whose tasks would lack the attribute."""
    with confined(what) as (pid, told):
        if isinstance(told, str):
            pytest.skip(told)
        assert confinement.difference(pid, told) == CHANGED[what]


def test_what_is_the_same_is_served() -> None:
    """A child of this process, and this process."""
    with confined("nothing") as (pid, told):
        assert confinement.difference(pid, told) is None
    assert confinement.difference(os.getpid(), confinement.own_attributes()) is None


FILES = {
    **dict.fromkeys(confinement.FILES, b"0"),
    "attr/current": b"docker-default (enforce)\n",
    "status": b"Groups:\t1 2\nNoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n",
}


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc with this process, the first one, and an equal client, 77."""
    monkeypatch.setattr(confinement, "PROC", str(tmp_path))
    monkeypatch.setattr(confinement, "_scheduling", lambda pid: None)
    monkeypatch.setattr(confinement, "own_attributes", dict[str, Any])
    for pid in (os.getpid(), 1, 77):
        for name, content in FILES.items():
            (tmp_path / str(pid) / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / str(pid) / name).write_bytes(content)
        (tmp_path / str(pid) / "ns").mkdir()
        for name in confinement.LINKS:
            (tmp_path / str(pid) / name).symlink_to("/")
    return tmp_path


@pytest.mark.parametrize("name", [*confinement.FILES, *confinement.LINKS, "status"])
@pytest.mark.parametrize("change", ["other", "unreadable", "unknown to the kernel"])
def test_every_file_counts(proc: Path, name: str, change: str) -> None:
    """Also one that can't be read, unless this kernel has no such file."""
    assert confinement.difference(77, {}) is None
    is_link = name in confinement.LINKS
    for pid in ("77", str(os.getpid())) if change == "unknown to the kernel" else ("77",):
        (proc / pid / name).unlink()
        if change == "other" and is_link:
            (proc / pid / name).symlink_to("/other")
        elif change == "other":
            (proc / pid / name).write_bytes(b"Groups:\t1\n")
    found = confinement.difference(77, {})
    wanted = {**confinement.FILES, **confinement.LINKS, "status": "other groups"}[name]
    assert found == (None if change == "unknown to the kernel" else wanted)


@pytest.mark.parametrize(
    ("status", "of_first", "wanted"),
    [
        (b"NoNewPrivs:\t1\n", b"NoNewPrivs:\t1\n", None),
        (b"NoNewPrivs:\t1\n", b"NoNewPrivs:\t0\n", "another no_new_privs, as far as can be seen"),
        (b"Seccomp:\t2\nSeccomp_filters:\t1\n", b"Seccomp:\t2\nSeccomp_filters:\t1\n", None),
        (
            b"Seccomp:\t2\nSeccomp_filters:\t2\n",
            b"Seccomp:\t2\nSeccomp_filters:\t1\n",
            "another seccomp filter, as far",
        ),
        (b"Seccomp:\t2\n", b"Seccomp:\t0\n", "another seccomp filter, as far as can be seen"),
        (b"Seccomp:\t2\n", b"", "another seccomp filter, as far as can be seen"),
        (b"Seccomp:\t0\n", b"", None),
    ],
)
def test_confinement_with_hidden_rules_has_to_be_that_of_all_processes(
    proc: Path, status: bytes, of_first: bytes, wanted: str | None
) -> None:
    """Two seccomp filters look alike. In a container that began with one, all processes have it."""
    for pid in (str(os.getpid()), "77"):
        (proc / pid / "status").write_bytes(status)
    (proc / "1/status").write_bytes(of_first)
    found = confinement.difference(77, {})
    assert found == wanted or (wanted and str(found).startswith(wanted))


WORDS = st.none() | st.integers() | st.text() | st.lists(st.integers()) | st.dictionaries(st.text(), st.integers())


@given(told=WORDS | st.dictionaries(st.sampled_from(sorted(confinement.own_attributes())), WORDS))
def test_a_client_with_invalid_attributes_is_not_served(told: object) -> None:
    """And does not end the server."""
    assert told == confinement.own_attributes() or confinement.difference(os.getpid(), told)


@needs_root
@pytest.mark.slow
def test_a_confined_run_begins_without_the_warm_server(warm: Warm) -> None:
    """It prints why, and its tasks are as confined as the client."""
    warm.start()
    program = warm.home.parent / "shows.py"
    program.write_text("import tensorflow\nprint(open('/proc/self/status').read())\n")
    up = ["setpriv", "--no-new-privs", sys.executable, "-m", "clusterkit", "up", "--run-id", "r", str(program)]
    done = subprocess.run(
        up, env={**clean_environment(warm.home), **warm.env}, timeout=30, check=True, capture_output=True, text=True
    )
    assert "begins without the warm server: it runs with another no_new_privs." in done.stdout + done.stderr
    assert "NoNewPrivs:\t1" in (warm.home / "runs/r/tasks/worker:0/attempt-1.log").read_text()
