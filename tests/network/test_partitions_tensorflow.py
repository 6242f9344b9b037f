"""Jobs in a virtual network: tasks that are cut off for a while, and that no other host can reach."""

from __future__ import annotations

import json
import os
import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit.network.virtual import why_not
from clusterkit.pytest_plugin import Clusters
from clusterkit.system import procfs
from clusterkit.words.events import FaultInjected, FaultTook, RestartPlanned, Resumed, Spawned
from tests.recoveries import check_report
from tests.support import CHILDREN, wait_until

WHY_NOT = why_not(network=True, disk=False)
pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.timeout(240),
    pytest.mark.cluster(timeout=200, network="virtual"),
    pytest.mark.skipif(WHY_NOT is not None, reason=f"no virtual network here: {WHY_NOT}"),
]
soak, long = pytest.mark.soak, pytest.mark.long
WORKER_1 = bytes([10, 77, 0, 3])  # of a job with a chief and two workers


def sent(capture: Path, source: bytes) -> list[float]:
    """Wall times at which the host with this address sent packets with data, from a pcap file."""
    data, position, times = capture.read_bytes(), 24, []
    while position + 16 <= len(data):
        seconds, micros, length, _ = struct.unpack_from("=IIII", data, position)
        packet = data[position + 16 : position + 16 + length]
        if packet[12:16] == source and length > 100:
            times.append(seconds + micros / 1e6)
        position += 16 + length
    return times


@pytest.mark.parametrize("seconds", [6, pytest.param(20, marks=soak)])
def test_a_parameter_server_job_continues_without_a_worker_that_is_cut_off(
    cluster: Clusters, tmp_path: Path, seconds: int
) -> None:
    """The other worker makes the steps meanwhile; after the heal the first one is used again."""
    steps = 300 + 60 * seconds
    run = cluster(
        "workloads/ps_train.py",
        args=["--steps", steps, "--checkpoint-every", 100, "--step-time", 0.02],
        workers=2,
        ps=1,
        fault="partition worker:1 @ step=120",
        pcap=tmp_path / "all.pcap",
    )
    run.wait_for_event(FaultTook)
    begun = run.wait_for_event(FaultInjected).step
    assert begun is not None
    run.wait_for_step(begun + 30 * seconds)  # as many as the other one makes in about that time
    run.heal()
    result = run.wait()
    assert result.last_step == steps
    assert result.restarts == 0
    check_report(run.directory)
    journal = [json.loads(line) for line in (run.directory / "journal.jsonl").read_text().splitlines()]
    start = min(event["t"] - event["m"] for event in journal)  # `m` is taken before an event is acted on, `t` after it
    (cut,) = [event["t"] for event in journal if event["event"] == "FaultTook"]  # the switch has answered
    (healed,) = [start + event["m"] for event in journal if event["event"] == "FaultHealed"]  # before it is asked
    times = sent(tmp_path / "all.pcap", WORKER_1)
    assert not [at for at in times if cut < at < healed]
    assert len([at for at in times if at > healed]) > 100


@pytest.mark.parametrize("seconds", [pytest.param(12, marks=long), pytest.param(20, marks=soak)])
def test_a_partitioned_gang_restarts(cluster: Clusters, seconds: int) -> None:
    """TensorFlow gives up, the gang restarts, its members find each other after the heal, and nothing is lost."""
    run = cluster(
        "workloads/mwms_train.py",
        args=["--steps", 300, "--checkpoint-every", 50, "--step-time", 0.01],
        workers=2,
        fault=f"partition worker:1 for={seconds}s @ step=120",
    )
    result = run.wait()
    assert result.last_step == 300
    assert result.restarts == 1
    assert len(run.wait_for_event(RestartPlanned).tasks) == 2
    resumed = [run.wait_for_event(Resumed, task=name, attempt=2).step for name in run.tasks]
    assert resumed[0] == resumed[1]
    assert resumed[0] >= 100
    check_report(run.directory)


@pytest.fixture
def stranger() -> Iterator[tuple[int, str]]:
    """Another host beside this machine: its first process, and this machine's address there."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("a second host needs root and the command ip")
    script = "read _"
    process = subprocess.Popen(["unshare", "--net", "sh", "-c", script], stdin=subprocess.PIPE)
    try:
        own = Path("/proc/self/ns/net").readlink()
        wait_until(lambda: Path(f"/proc/{process.pid}/ns/net").readlink() != own, 10, "a namespace")
        inside = ("nsenter", "--net", "--target", str(process.pid))
        for words in (
            ("ip", "link", "add", "ck-test0", "type", "veth", "peer", "name", "eth0", "netns", str(process.pid)),
            ("ip", "address", "add", "192.0.2.1/30", "dev", "ck-test0"),
            ("ip", "link", "set", "ck-test0", "up"),
            (*inside, "ip", "address", "add", "192.0.2.2/30", "dev", "eth0"),
            (*inside, "ip", "link", "set", "eth0", "up"),
            (*inside, "ip", "route", "add", "default", "via", "192.0.2.1"),
        ):
            subprocess.run(words, check=True, timeout=10)
        yield process.pid, "192.0.2.1"
    finally:
        process.kill()  # with its namespace both ends of the pair are gone
        process.communicate()


@pytest.mark.long
def test_a_stranger_reaches_nothing(cluster: Clusters, stranger: tuple[int, str]) -> None:
    """All ports of the run's addresses and of this machine, tried from a host beside it."""
    pid, machine = stranger
    run = cluster("workloads/ps_train.py", args=["--steps", 100000, "--step-time", 0.5], workers=2, ps=1)
    run.wait_for_step(1)
    addresses = [f"10.77.0.{number}" for number in range(1, 5)]
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limit[1] >= 5000, "the scan needs descriptors"
    scan = [sys.executable, "-S", CHILDREN / "scan.py", machine, *addresses]
    words = ["nsenter", "--net", "--target", str(pid), "sh", "-c", 'ulimit -n 5000; exec "$@"', "sh", *map(str, scan)]
    reached = json.loads(subprocess.run(words, check=True, capture_output=True, timeout=200).stdout)
    assert [reached[address] for address in addresses] == [[], [], [], []]
    ours = {port for event in run.events() if isinstance(event, Spawned) for port in procfs.listening_ports(event.pid)}
    assert ours == {2222}  # in their own namespaces
    assert not {port for task in run.tasks.values() for port in reached[machine] if port == 2222 and task}
    run.stop()
