"""Which hosts are named, and with what: by options, a job file and a hosts file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, cast

import pytest

from clusterkit.engines.ssh.engine import ENGINE
from clusterkit.job.jobfile import read_job_file
from clusterkit.job.options import GivenOptions, JobOptions
from clusterkit.supervisor.prepare import gather
from clusterkit.words.errors import BadJob


def completed(**options: Any) -> tuple[Any, ...]:
    """The hosts, their number, and whatever else is left."""
    found = dict(ENGINE.completed(cast(JobOptions, {"engine": "ssh", **options})))
    return (found.pop("host"), found.pop("hosts"), {name: found[name] for name in found.keys() - {"engine"}})


def test_hosts_are_counted() -> None:
    """Unless the number of spare ones says otherwise."""
    assert completed(host=["a", "me@b.lab", "fe80::1%eth0"]) == (("a", "me@b.lab", "fe80::1%eth0"), 3, {})
    assert completed(host=["a", "b"], spare_hosts=1) == (("a", "b"), 1, {"spare_hosts": 1})
    assert completed(host=["a", "b"], hosts=1, spare_hosts=1)[1] == 1


def test_a_hosts_file_is_read_once(tmp_path: Path) -> None:
    """Its names come after those of options; what is completed can be completed again."""
    file = tmp_path / "hosts"
    text = "b  # by the window\n  c\n"
    for written in (f"# the lab\n\n{text}".encode(), f"\ufeff{text}".replace("\n", "\r\n").encode()):  # or by Windows
        file.write_bytes(written)
        hosts, count, left = completed(host=["a"], hosts_file=file)
        assert (hosts, count, left) == (("a", "b", "c"), 3, {})
    assert completed(host=hosts, hosts=count) == (hosts, count, left)


def test_a_job_file_names_hosts() -> None:
    """As the flags do; and says how many there are."""
    given = read_job_file('engine = "ssh"\nhost = ["a", "b"]\nhosts-file = ""\n', "job.toml")
    assert given.options["host"] == ["a", "b"]
    assert gather(GivenOptions({"engine": "ssh", "host": ["a", "b"]})).options["hosts"] == 2


@pytest.mark.parametrize(
    "name",
    ["-oProxyCommand=touch x", "--", "-", "", " ", "a b", "a;b", "$(x)", "`x`", "a'b", 'a"b', "a\nb", "a\0", "a/../b",
     "@a", "-x@a", "a@-x", "a@b@c", "ä", "a\u202eb", "a" * 300, "[a]", "~", "*", "a&b", "a|b", "a>b", "%h"],
)  # fmt: skip
def test_a_hostile_name_is_refused(name: str) -> None:
    """Whatever may mean something to ssh, to a shell or to a terminal."""
    with pytest.raises(BadJob, match=r"--host .* is not a valid ssh host") as found:
        completed(host=["a", name])
    assert str(found.value).isprintable()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "name the hosts, with --host NAME for each"),
        ({"host": ["a", "a", "b"]}, "--host a: it is named twice."),
        ({"host": ["a", "b"], "hosts": 3}, "--hosts 3 and --spare-hosts 0 don't fit 2 hosts"),
        ({"host": ["a"], "spare_hosts": 1}, "--hosts 0 and --spare-hosts 1 don't fit 1 host"),
        ({"host": ["a"], "remote_python": "-c"}, "--remote-python '-c' can't be an interpreter"),
        ({"hosts_file": "/etc/passwd"}, "The hosts file /etc/passwd, line 1: 'root:x:0:0:"),
        ({"hosts_file": "/nowhere/hosts"}, "The hosts file /nowhere/hosts can't be read: No such file"),
        ({"hosts_file": "/"}, "The hosts file / can't be read: Is a directory"),
    ],
)
def test_hosts_that_do_not_fit_are_a_problem(options: dict[str, Any], problem: str) -> None:
    """One error that says what is wrong."""
    with pytest.raises(BadJob) as found:
        completed(**options)
    assert problem in str(found.value)


def test_random_bytes_in_a_hosts_file_are_one_error(tmp_path: Path) -> None:
    """No traceback, and nothing unprintable."""
    rng, file = random.Random(1), tmp_path / "hosts"
    for size in (1, 10, 1000, 2 << 20):
        file.write_bytes(b"-" + rng.randbytes(size))
        with pytest.raises(BadJob) as found:
            completed(hosts_file=file)
        assert all(line.isprintable() for line in str(found.value).splitlines())
