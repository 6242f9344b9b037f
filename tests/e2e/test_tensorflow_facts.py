"""What TensorFlow does when a task dies, freezes or is cut off: a test a row of docs/tensorflow-failures.md."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from clusterkit.network.virtual import why_not
from tests.e2e import facts
from tests.e2e.facts import ENDING, GANG, PS_JOB, Cuts, Lab, Seen, Slow, laboratory, lines_with
from tests.support import CHILDREN, Up, wait_until

pytestmark = [pytest.mark.tensorflow, pytest.mark.matrix, pytest.mark.timeout(240)]

ERRORS = "tensorflow.python.framework.errors_impl"
HEARTBEATS = 10.0  # seconds without one, after which a multi-worker job takes a task for dead
SOON = 10.0  # seconds for what happens at once, on a machine that is busy
LATE = 40.0  # seconds by which what heartbeats tell has happened there
PS_TASKS = {"chief:0", "worker:0", "worker:1", "ps:0"}
GANG_OF_3 = {"worker:0", "worker:1", "worker:2"}
UNHEALTHY = re.compile(r"stopped sending heartbeats|/task:\d heartbeat timeout")  # the latter in TensorFlow 2.16
UNHEARD = re.compile(r"(RPC:|calling) /tensorflow\.CoordinationService/Heartbeat")  # likewise
WHY_NOT = why_not(network=True, disk=False)
virtual = pytest.mark.skipif(WHY_NOT is not None, reason=f"no virtual network here: {WHY_NOT}")
long = pytest.mark.long
PEER = {"worker:0": "worker:1", "worker:1": "worker:0"}


@pytest.fixture
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Lab]]:
    """Start a job to break."""
    with laboratory(tmp_path_factory.mktemp("lab")) as start:
        yield start


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Slow:
    """All of them at one time, since most of it is waiting."""
    with laboratory(tmp_path_factory.mktemp("slow")) as start:
        sender = start(facts.SENDER)
        killed = sender.kill("worker:1")
        ps_jobs = {task: start(PS_JOB) for task in ("chief:0", "worker:1", "ps:0")}
        frozen = {task: job.freeze(task) for task, job in ps_jobs.items()}
        gangs = {task: start(GANG) for task in PEER}
        briefly = {task: gang.freeze(task) for task, gang in gangs.items()}
        # All are mended before any is waited for, here and below: else the others stay broken meanwhile.
        thawed_soon = {task: (gang.lasting(briefly[task], 2), gang.thaw(task)) for task, gang in gangs.items()}
        for task, gang in gangs.items():
            gang.over(*thawed_soon[task])
        longer = {task: gang.freeze(task) for task, gang in gangs.items()}
        for task, gang in gangs.items():
            gang.ending(longer[task], PEER[task])
        thawed = {task: gang.ending(gang.thaw(task), task) for task, gang in gangs.items()}
        for task, job in ps_jobs.items():
            job.over(job.lasting(frozen[task], HEARTBEATS + 2), job.thaw(task))
        return Slow(frozen, briefly, longer, thawed, sender.ending(killed, "worker:0"))


@pytest.fixture(scope="module")
def cuts(tmp_path_factory: pytest.TempPathFactory) -> Cuts:
    """The cuts at one time too."""
    with laboratory(tmp_path_factory.mktemp("cuts")) as start:
        gangs = {task: start(facts.CUT_GANG) for task in PEER}
        briefly = {task: gang.cut(task) for task, gang in gangs.items()}
        healed_soon = {task: (gang.lasting(briefly[task], 2), gang.heal()) for task, gang in gangs.items()}
        for task, gang in gangs.items():
            gang.over(*healed_soon[task])
        longer = {task: gang.cut(task) for task, gang in gangs.items()}
        for task, gang in gangs.items():
            gang.ending(longer[task], *GANG_OF_3)
        ps_jobs = {task: start(facts.CUT_PS_JOB) for task in ("chief:0", "worker:1", "ps:0")}
        cut = {task: job.cut(task) for task, job in ps_jobs.items()}
        # All are healed before any is waited for: after 20 s gRPC gives connections up, and the chief may end of it.
        healed = {task: (job.lasting(cut[task], HEARTBEATS + 2), job.heal()) for task, job in ps_jobs.items()}
        for task, job in ps_jobs.items():
            job.over(*healed[task])
        return Cuts(cut, briefly, longer)


def check_unnoticed(seen: Seen, tasks: set[str]) -> None:
    """Training stood still, no task complained of another, nobody ended; then it went on."""
    assert (seen.rounds, seen.complaints, seen.ends) == ([], {}, {})
    assert seen.alive == tasks
    assert seen.next is not None


def test_ps_job_a_worker_dies(lab: Callable[..., Lab]) -> None:
    """The coordinator logs it and goes on with the other worker."""
    job = lab(PS_JOB)
    seen = job.ending(job.kill("worker:1"), "worker:1")
    job.next_round(job.next_round(seen.since + 2).at)  # the first one may be the one that was under way
    job.lasting(seen, 2)
    assert seen.ends.keys() == {"worker:1"}
    assert seen.alive == PS_TASKS - {"worker:1"}
    assert {one.by for one in seen.rounds} == {(0,)}
    assert lines_with(["Worker /job:worker/replica:0/task:1 failed with UnavailableError"], seen.said["chief:0"])


def test_ps_job_a_ps_dies(lab: Callable[..., Lab]) -> None:
    """The coordinator's join() raises, and the program ends if it does not catch that; the workers stay."""
    job = lab(PS_JOB)
    seen = job.ending(job.kill("ps:0"), "chief:0")
    assert seen.ends.keys() == {"ps:0", "chief:0"}
    chief = seen.ends["chief:0"]
    assert (chief.exit.code, chief.after < SOON) == (1, True)
    assert chief.exception.startswith(f"{ERRORS}.UnavailableError: ")
    assert lines_with(["GRPC error information from remote target /job:ps/replica:0/task:0"], chief.log)
    assert lines_with(["cluster_coordinator.py", "in join"], chief.log)
    assert job.lasting(seen, chief.after + 1).alive == {"worker:0", "worker:1"}


def test_ps_job_the_chief_dies(lab: Callable[..., Lab]) -> None:
    """The workers and the ps don't notice: they wait for another coordinator, and do not complain."""
    job = lab(PS_JOB)
    seen = job.lasting(job.ending(job.kill("chief:0"), "chief:0"), 3)
    assert seen.ends.keys() == {"chief:0"}
    assert seen.alive == PS_TASKS - {"chief:0"}
    assert (seen.rounds, seen.complaints) == ([], {})


def test_ps_job_the_chief_ends_without_a_worker(lab: Callable[..., Lab]) -> None:
    """Its interpreter waits for a lock that the thread has which looks for the worker, and which no longer runs."""
    job = lab(ENDING)
    killed = job.kill("worker:1")
    job.reached("chief:0", "update_server_def")
    (job.cluster.directory / "go").touch()
    wait_until(lambda: "in stop\n" in job.stacks("chief:0"), SOON, lambda: f"the lock; {job.stacks('chief:0')}")
    seen = job.lasting(killed, time.monotonic() - killed.since + 2)
    assert seen.said["chief:0"].endswith("the last line of the program")
    assert "chief:0" in seen.alive
    job.cluster.wait_for_event("ProgramEnds", task="chief:0")
    stack = job.stacks("chief:0")
    assert lines_with(["cluster_coordinator.py", "in stop"], stack)
    assert lines_with(["cluster_coordinator.py", "in __del__"], stack)


@long
@pytest.mark.parametrize("task", ["chief:0", "worker:1", "ps:0"])
def test_ps_job_a_task_freezes(slow: Slow, task: str) -> None:
    """Training stands still and nobody says so; after SIGCONT it goes on as if nothing had been."""
    seen = slow.ps_job[task]
    assert seen.lasted > HEARTBEATS
    check_unnoticed(seen, PS_TASKS)


@long
def test_ps_job_a_ps_freezes_to_which_a_worker_connects(lab: Callable[..., Lab]) -> None:
    """The worker's first call to the ps fails after 20 s, and the chief ends of it."""
    job = lab(PS_JOB, took_part=1, args=["go"])
    frozen = job.freeze("ps:0")
    (job.cluster.directory / "go").touch()
    seen = job.ending(frozen, "chief:0")
    chief = seen.ends["chief:0"]
    assert seen.ends.keys() == {"chief:0"}
    assert (chief.exit.code, 15 < chief.after < LATE) == (1, True)
    assert chief.exception.startswith(f"{ERRORS}.UnavailableError: ")
    assert "connection attempt timed out before receiving SETTINGS frame" in chief.exception


@pytest.mark.parametrize("task", PEER)
def test_gang_a_worker_dies(lab: Callable[..., Lab], task: str) -> None:
    """The collective of its peer is aborted at once."""
    gang = lab(GANG)
    seen = gang.ending(gang.kill(task), PEER[task])
    peer = seen.ends[PEER[task]]
    assert (peer.exit.code, peer.after < SOON) == (1, True)
    assert peer.exception.startswith(f"{ERRORS}.UnavailableError: ")
    assert lines_with(["Collective ops is aborted by: "], peer.log)
    assert lines_with([f"from remote target /job:worker/replica:0/task:{task[-1]}"], peer.log)


@long
def test_gang_a_worker_dies_whom_its_peer_asks_for_nothing(slow: Slow) -> None:
    """A worker that only waits to be asked in a collective does not see the death: the missing heartbeats tell it."""
    end = slow.sender.ends["worker:0"]
    assert 0.3 * HEARTBEATS < end.after < LATE
    assert end.exit.code == 1
    assert end.exception.startswith(f"{ERRORS}.UnavailableError: ")
    assert UNHEALTHY.search(end.log)


@long
@pytest.mark.parametrize("task", PEER)
def test_gang_a_worker_freezes_briefly(slow: Slow, task: str) -> None:
    """Its peer waits in the collective; after SIGCONT training goes on as if nothing had been."""
    check_unnoticed(slow.gang_briefly[task], set(PEER))


@long
@pytest.mark.parametrize(
    ("task", "error", "phrase"),
    [
        ("worker:0", "DeadlineExceededError", UNHEARD),
        ("worker:1", "UnavailableError", UNHEALTHY),
    ],
    ids=PEER,
)
def test_gang_a_worker_freezes(slow: Slow, task: str, error: str, phrase: re.Pattern[str]) -> None:
    """Its peer gives up when heartbeats are missing: 5 to 10 s later. worker:0 is who takes them."""
    seen = slow.gang[task]
    assert seen.ends.keys() == {PEER[task]}
    peer = seen.ends[PEER[task]]
    assert 0.3 * HEARTBEATS < peer.after < LATE
    assert peer.exit.code == 1
    assert peer.exception.startswith(f"{ERRORS}.{error}: ")
    assert phrase.search(peer.log)
    assert seen.alive == {task}  # stopped, and that for ever


@long
@pytest.mark.parametrize("task", PEER)
def test_gang_a_worker_goes_on_too_late(slow: Slow, task: str) -> None:
    """After SIGCONT it finds that its peer is gone, it was given up itself or its heartbeat was late, and ends too."""
    end = slow.gang_thawed[task].ends[task]
    assert (end.exit.code, end.after < SOON) == (1, True)
    found = ("UnavailableError", "AbortedError", "DeadlineExceededError")  # the last one where the machine is busy
    assert end.exception.startswith(tuple(f"{ERRORS}.{name}: " for name in found))


@long
@virtual
@pytest.mark.parametrize("task", ["chief:0", "worker:1", "ps:0"])
def test_ps_job_a_task_is_cut_off(cuts: Cuts, task: str) -> None:
    """Training stands still and the coordinator does not say so; after the heal it goes on."""
    seen = cuts.ps_job[task]
    assert seen.lasted > HEARTBEATS
    assert (seen.rounds, seen.ends, seen.alive) == ([], {}, PS_TASKS)
    assert "chief:0" not in seen.complaints  # a task that waits for another's tensor gives up its call after some 20 s
    assert seen.next is not None


@long
@virtual
@pytest.mark.parametrize("task", PEER)
def test_gang_a_worker_is_cut_off_briefly(cuts: Cuts, task: str) -> None:
    """All wait in the collective; after the heal training goes on as if nothing had been."""
    check_unnoticed(cuts.gang_briefly[task], GANG_OF_3)


@long
@virtual
@pytest.mark.parametrize("task", PEER)
def test_gang_a_worker_is_cut_off(cuts: Cuts, task: str) -> None:
    """Both sides give up: worker:0 misses heartbeats of the other side, and the other side its answers to them."""
    seen = cuts.gang[task]
    assert seen.alive == set()
    assert seen.ends.keys() == GANG_OF_3
    assert {end.exit.code for end in seen.ends.values()} == {1}
    assert all(0.3 * HEARTBEATS < end.after < LATE for end in seen.ends.values())
    others = GANG_OF_3 - {"worker:0"} if task == "worker:0" else {task}
    first = min((seen.ends[name] for name in others), key=lambda end: end.after)
    assert first.exception.startswith(f"{ERRORS}.DeadlineExceededError: ")
    assert UNHEARD.search(first.log)
    assert seen.ends["worker:0"].exception.startswith(f"{ERRORS}.UnavailableError: ")
    assert UNHEALTHY.search(seen.ends["worker:0"].log)


@virtual
def test_ps_job_connections_are_reset(lab: Callable[..., Lab]) -> None:
    """The coordinator takes the worker for lost if a call was under way, finds it again, and uses it again."""
    job = lab(facts.CUT_PS_JOB)
    phrases = ["Worker /job:worker/replica:0/task:", " failed with UnavailableError"]
    seen = job.reset("chief:0", lambda: lines_with(phrases, job.cluster.tasks["chief:0"].logs()))
    lost = time.monotonic()
    wait_until(lambda: any(one.by == (0, 1) for one in job.rounds() if one.at > lost), 60, "steps of both workers")
    job.lasting(seen, 0)
    assert (seen.alive, seen.ends) == (PS_TASKS, {})


@long
def test_ps_job_a_step_is_cancelled() -> None:
    """An iterator whose `next` was under way is at its end from then on, endless as its data is; a new one works."""
    words = [sys.executable, str(CHILDREN / "facts_cancelled.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=220)
    assert done.stdout.splitlines()[1:] == [  # the step that was cancelled may still have got its batch
        "next: OutOfRangeError True",
        "the one after: OutOfRangeError True",
        "a new iterator: 7",
    ], done.stderr[-2000:]


@virtual
def test_gang_connections_are_reset(lab: Callable[..., Lab]) -> None:
    """The collective that was under way is aborted in both; between two of them nobody notices."""
    gang = lab({**facts.CUT_GANG, "workers": 2})
    seen = gang.ending(gang.reset("worker:1", gang.ended), *PEER)
    assert {end.exit.code for end in seen.ends.values()} == {1}
    assert all(end.exception.startswith(f"{ERRORS}.UnavailableError: ") for end in seen.ends.values())
    assert any(lines_with(["Connection reset by peer"], end.log) for end in seen.ends.values())


def test_gang_a_handler_is_set_before_the_strategy(up: Callable[..., Up]) -> None:
    """The strategy replaces it in C: `getsignal` returns it, and it never runs. One that is set afterwards runs."""
    run = up("--workers", "2", "--restart", "never", "--no-patches", CHILDREN / "facts_sigterm.py")
    assert [run.wait(120), *(b'["save", 0, 1]' in run.log(task) for task in PEER)] == [0, True, True]
