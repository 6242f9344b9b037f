"""Errors before the first step that the next attempt would meet again are not restarted; all others are."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from clusterkit.machine.blame import is_bug, is_usage_error, looks_collateral
from clusterkit.words import events as ev
from clusterkit.words.job import HostRequest, JobSpec, RestartPolicy, RestartRules
from clusterkit.words.outcome import REFUSED, Blame, Exit, Failure
from tests.histories import History, build_job, job, task

GANG, PS_JOB, ALONE = job(workers=2), job(workers=2, ps=1), job(workers=1)
TF = "tensorflow.python.framework.errors_impl."
NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.csv'"
TYPO = "NameError: name 'acuracy' is not defined"

COMES_AGAIN = {
    TYPO: "the program's text is the same",
    "UnboundLocalError: cannot access local variable 'x' where it is not associated with a value": "the same",
    "ModuleNotFoundError: No module named 'tensorfow'": "what is installed is the same",
    "ImportError: cannot import name 'Modle' from 'keras'": "the same",
    "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory": "the same",
    "SyntaxError: invalid syntax (helpers.py, line 3)": "of a module; that of the program is found before the run",
    "AttributeError: module 'tensorflow' has no attribute 'Session'": "a module has what it has",
    "TypeError: Trainer.fit() got an unexpected keyword argument 'epoch'": "a call that its callee never takes",
    "TypeError: build() missing 1 required positional argument: 'shape'": "the same",
    NO_FILE: "the leader misses it, and nobody else writes what the leader reads",
    "PermissionError: [Errno 13] Permission denied: '/data/train.csv'": "rights do not change by themselves",
    "ValueError: File not found: filepath=model.keras. Please ensure": "Keras' words for a missing file",
    f"{TF}NotFoundError: {{{{function_node}}}} data.tfrecord; No such file or directory [Op:IteratorGetNext]": "a path",
}
MAY_PASS = {
    f"{TF}UnavailableError: failed to connect to all addresses": "the peer comes back",
    f"{TF}DeadlineExceededError: Barrier timed out": "the peer was slow",
    f"{TF}NotFoundError: Function __inference_f_12 is not found": "a server has started again without it",
    f"{TF}NotFoundError: Container localhost does not exist": "the same",
    f"{TF}ResourceExhaustedError: OOM when allocating": "memory may be free by then",
    "ConnectionRefusedError: [Errno 111] Connection refused": "the server may not be up yet",
    "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>": "the network",
    "OSError: [Errno 28] No space left on device": "a disk may be cleared",
    "OSError: [Errno 5] Input/output error": "of a network file system",
    "OSError: [Errno 24] Too many open files: 'data/1.csv'": "others close theirs",
    "ImportError: /x.so: failed to map segment from shared object: Cannot allocate memory": "memory",
    "KeyError: 'price'": "depends on what was read, which may be written anew",
    "ValueError: Data cardinality is ambiguous": "the same",
    "AttributeError: 'NoneType' object has no attribute 'split'": "what a peer has not written yet",
    "TypeError: int() argument must be a string, not 'NoneType'": "the same",
    "RuntimeError: no checkpoint": "anything",
}


def failed(spec: JobSpec, exception: str | None = TYPO, name: str = "worker:0", code: int = 1) -> History:
    """A run, a minute after this failure of one task."""
    run = History(spec).begin()
    run.exits(name, code=code, exception=exception)
    run.after(60)
    return run


@pytest.mark.parametrize("spec", [ALONE, GANG])
@pytest.mark.parametrize("exception", COMES_AGAIN)
def test_what_comes_again_is_not_restarted(spec: JobSpec, exception: str) -> None:
    """The result says so, as a fact of the journal."""
    run = failed(spec, exception)
    assert (run.over, run.attempts["worker:0"], run.result.restarts) == (True, 1, 0)
    assert run.result.usage_error
    assert not run.result.repeated
    (end,) = run.decided(ev.Finished)
    assert end.result.usage_error
    assert (
        run.result.reason
        == "worker:0 exited with code 1 before it reported a step, with an error that a restart repeats"
    )


def test_what_tensorflow_tells_of_its_start_does_not_count() -> None:
    """Before any error, it reports that its coordination service has started and who has connected to it."""
    told = [
        "I0000 00:00:1795743329.510869   17253 coordination_service.cc:221] Initializing CoordinationService",
        "I0000 00:00:1795743330.447422   17253 coordination_service_agent.cc:245] Coordination agent has connected.",
        "I0000 00:00:1795743330.389745   18502 coordination_service.h:529] It has connected to coordination service",
    ]
    run = History(GANG).begin()
    run.last_words["worker:0"] = (tuple(told), NO_FILE)
    run.exits("worker:0", code=1)
    run.after(60)
    assert (run.over, run.result.usage_error, run.attempts["worker:0"]) == (True, True, 1)
    silent = Failure(task("worker:0"), 1, Exit(code=3), 0.0, tuple(told))
    assert not looks_collateral(silent)


@pytest.mark.parametrize("exception", MAY_PASS)
def test_what_may_pass_is_restarted(exception: str) -> None:
    """Once at least."""
    assert failed(ALONE, exception).attempts["worker:0"] == 2


def test_wrong_arguments_are_not_restarted() -> None:
    """They print their usage and exit with 2; without that, 2 is a code as any other."""
    run = History(ALONE).begin()
    run.last_words["worker:0"] = (("usage: train.py [-h]", "train.py: error: unrecognized arguments: --epoch 1"), None)
    run.exits("worker:0", code=2)
    run.after(60)
    assert run.result.usage_error
    assert not failed(ALONE, None, code=2).over


@pytest.mark.parametrize(
    ("line", "is_usage"),
    [
        ("usage: train.py [-h] --data DATA", True),
        ("Usage: train.py [OPTIONS] COMMAND", True),
        ("usage: python -m trainer.main [-h]", True),
        ("Usage: ./train.sh DATA EPOCHS", True),
        ("usage: train.sh", True),
        ("usage: train.py <data> ...", True),
        ("Usage: 93% of GPU memory", False),
        ("Usage: GPU at 93%", False),
        ("usage: memory 12 of 16 GB", False),
        ("Usage: ", False),
        ("CPU usage: train.py [x]", False),
    ],
)
def test_a_line_about_usage_has_to_tell_how_a_command_is_called(line: str, is_usage: bool) -> None:
    """A restart is only useless if the command says that it was called wrongly."""
    run = History(ALONE).begin()
    run.last_words["worker:0"] = ((line,), None)
    run.exits("worker:0", code=2)
    run.after(60)
    assert run.over is is_usage


@pytest.mark.parametrize(
    ("spec", "name", "attempts"),
    [(GANG, "worker:1", 2), (GANG, "worker:0", 1), (PS_JOB, "worker:0", 2), (PS_JOB, "ps:0", 2),
     (PS_JOB, "chief:0", 1)],
)  # fmt: skip
def test_a_file_that_the_leader_may_yet_write_is_waited_for(spec: JobSpec, name: str, attempts: int) -> None:
    """The leader often prepares data for its peers."""
    assert failed(spec, NO_FILE, name).attempts[name] == attempts


def test_all_workers_that_miss_a_file_are_one_failure() -> None:
    """Whoever of them ends first."""
    run = History(GANG).begin()
    run.exits("worker:1", exception=NO_FILE)
    run.exits("worker:0", exception=NO_FILE)
    run.after(60)
    assert run.result.usage_error
    assert run.attempts == {"worker:0": 1, "worker:1": 1}


def test_after_a_step_a_restart_is_tried() -> None:
    """A checkpoint may take it past the error; so may an attempt whose steps nobody saw."""
    stepped = History(ALONE).begin()
    stepped.progresses("worker:0", 1)
    unseen = History(ALONE).begin()
    unseen.after(121)
    for run in (stepped, unseen):
        run.exits("worker:0", exception=TYPO)
        run.after(60)
        assert run.attempts["worker:0"] == 2


BUG = "AttributeError: 'History' object has no attribute 'histroy'"
CHAINED = "During handling of the above exception, another exception occurred:"
OWN, KERAS = '  File "/home/me/train.py", line 9, in <module>', '  File "/v/site-packages/keras/fit.py", line 3, in fit'


@pytest.mark.parametrize("spec", [ALONE, GANG])
@pytest.mark.parametrize(
    ("error", "frames", "saved", "attempts"),
    [
        (BUG, (KERAS, OWN), False, 1),
        (TYPO, (OWN,), False, 1),
        (BUG, (KERAS, OWN), True, 2),  # the next attempt begins elsewhere
        (BUG, (OWN, KERAS), False, 2),  # an error in a library may depend on data
        ("AttributeError: 'NoneType' object has no attribute 'x'", (OWN,), False, 2),
        ("ValueError: bad", (OWN,), False, 2),
    ],
)
def test_a_bug_after_the_last_step_comes_again_unless_a_checkpoint_is_restored(
    spec: JobSpec, error: str, frames: tuple[str, ...], saved: bool, attempts: int
) -> None:
    """Such as a typo after fit: the whole training would be done again for the same end."""
    run = History(spec).begin()
    run.send(ev.Progressed(task("worker:0"), 1, 40, {}, 40))
    if saved:
        run.send(ev.Checkpointed(task("worker:0"), 1, 40, "/c/40"))
    run.last_words["worker:0"] = (("Traceback (most recent call last):", *frames, error), error)
    run.exits("worker:0", code=1)
    run.after(60)
    assert run.attempts["worker:0"] == attempts
    if attempts == 1:
        assert run.result.usage_error
        assert run.result.reason == "worker:0 exited with code 1, with an error that a restart repeats"


@pytest.mark.parametrize("total", [None, 100])
def test_a_bug_between_steps_is_restarted(total: int | None) -> None:
    """The program may restore a checkpoint that only it knows, and not come to that line again."""
    run = History(GANG).begin()
    run.send(ev.Progressed(task("worker:0"), 1, 40, {}, total))
    run.last_words["worker:0"] = (("Traceback (most recent call last):", OWN, BUG), BUG)
    run.exits("worker:0", code=1)
    run.after(60)
    assert run.attempts["worker:0"] == 2


CAUGHT = ("Traceback (most recent call last):", '  File "/home/me/train.py", line 1, in <module>')


@pytest.mark.parametrize(
    ("code", "tail"),
    [
        (3, (*CAUGHT, BUG)),  # the program printed the traceback, and went on
        (1, (*CAUGHT, "OSError: Too many open files", "", CHAINED, "", *CAUGHT, BUG)),
    ],
)
def test_a_bug_that_did_not_end_the_task_or_that_follows_another_error_is_restarted(
    code: int, tail: tuple[str, ...]
) -> None:
    """A traceback that the program printed itself, and an error in a handler of an error that may pass."""
    run = History(ALONE).begin()
    run.send(ev.Progressed(task("worker:0"), 1, 40, {}, 40))
    run.last_words["worker:0"] = (tail, BUG)
    run.exits("worker:0", code=code)
    run.after(60)
    assert run.attempts["worker:0"] == 2


@pytest.mark.parametrize("spec", [ALONE, GANG, replace(GANG, hosts=HostRequest(count=2))])
def test_a_refusal_of_clusterkits_own_is_never_restarted(spec: JobSpec) -> None:
    """On no host, and also after steps."""
    run = History(spec).begin()
    run.progresses("worker:0", 1)
    run.last_words["worker:0"] = (("clusterkit: worker:0 calls fit, which Keras 3 can't do.",), "")
    run.exits("worker:0", code=REFUSED)
    run.after(60)
    assert (run.over, run.attempts["worker:0"]) == (True, 1)
    assert run.result.usage_error


def test_a_program_may_exit_with_the_code_of_a_refusal() -> None:
    """Without clusterkit's sentence, the code means nothing."""
    run = History(ALONE).begin()
    run.progresses("worker:0", 1)
    run.exits("worker:0", code=REFUSED)
    run.after(60)
    assert run.attempts["worker:0"] == 2


@pytest.mark.parametrize(
    "spec",
    [
        build_job({"program": "train.py", "workers": 1, "restart_budget": 3}, ALONE.program.kind),
        job(workers=1, restart=RestartRules(policy=RestartPolicy.ALWAYS)),
    ],
    ids=["a budget", "always"],
)
def test_restarts_that_were_asked_for_are_made(spec: JobSpec) -> None:
    """A budget that the user names, and the policy always."""
    assert failed(spec).attempts["worker:0"] == 2


def test_another_host_may_have_what_is_missing() -> None:
    """There, a restart is tried."""
    assert failed(replace(GANG, hosts=HostRequest(count=2))).attempts["worker:0"] == 2


def test_a_peers_end_in_the_traceback_is_the_cause() -> None:
    """A typo in the handler of an error of TensorFlow's shows that first."""
    run = History(ALONE).begin()
    run.last_words["worker:0"] = ((f"{TF}UnavailableError: Socket closed", "During handling", TYPO), TYPO)
    run.exits("worker:0", code=1)
    run.after(60)
    assert run.attempts["worker:0"] == 2


def test_an_evaluator_with_such_an_error_is_given_up() -> None:
    """It never fails the job."""
    run = failed(job(workers=1, evaluator=1), name="evaluator:0")
    assert not run.over
    assert run.attempts["evaluator:0"] == 1
    assert any("is not started again" in warning for warning in run.warnings)


def test_any_text_has_an_answer() -> None:
    """What a program prints is anything."""
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    for _ in range(2000):
        said = "".join(chr(chance.choice([10, 32, 39, 58, chance.randrange(0x3000)])) for _ in range(40))
        said = chance.choice(["", "NameError: ", "TypeError: ", "usage: "]) + said
        failure = Failure(task("worker:0"), 1, Exit(code=chance.choice([1, 2])), 1.0, (said,), said)
        assert is_usage_error(Blame(failure), GANG.leader) in (True, False), f"seed {seed}"
        assert is_bug(failure) in (True, False), f"seed {seed}"
