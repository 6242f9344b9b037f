"""Rows about workers that wait for another worker: at startup, or because that worker gets no data."""

from __future__ import annotations

from clusterkit.explain.row import Condition, Evidence, Row, Words, found
from clusterkit.explain.rows.gangs import IN_A_STEP
from clusterkit.explain.rows.resolvers import CONNECTS
from clusterkit.text.spelling import listed
from clusterkit.words.model import Shape, number_of
from clusterkit.words.outcome import RunState

_TWO = ("--workers", "2")
_WAITS_FOR_DATA = "waits for its next batch"
_IN_A_SESSION = "waits in Session.run"
_FOR_THE_CHIEF = "waits for the chief to initialize variables"
_WAITS = "waits in MultiWorkerMirroredStrategy()"


def _late(evidence: Evidence) -> Words | None:
    """Check whether some tasks wait in the strategy for tasks that still run other code."""
    waits = [str(task.task) for task in evidence.stuck if task.doing.startswith(_WAITS)]
    late = [task for task in evidence.stuck if not task.doing.startswith(_WAITS) and task.where and not task.listens]
    if not waits or not late:
        return None
    return {"late": str(late[0].task), "doing": late[0].doing, "waits": listed(waits)}


def _left(evidence: Evidence) -> Words | None:
    """Check whether a task of a gang ended without an error before it connected, while other tasks still ran."""
    first, job = evidence.first, evidence.job
    if job is None or job.shape is not Shape.MULTI_WORKER or first.exit is None or not first.exit.ok:
        return None
    waits = [task.name for task in evidence.tasks[1:] if task.exit is not None and task.exit.asked is not None]
    return {"waits": listed(waits)} if waits and first.connected is False and first.step is None else None


def _ended_in_a_session(evidence: Evidence) -> Words | None:
    """Check whether a training task ended without an error, and another one waits in a TensorFlow 1 session."""
    waits = [str(task.task) for task in evidence.stuck if task.doing.startswith(_IN_A_SESSION)]
    ends = ((task.task, task.exit) for task in evidence.tasks)
    done = [str(task) for task, exit_ in ends if task and task.trains and exit_ and exit_.ok and exit_.asked is None]
    if not waits or not done:
        return None
    return {"done": listed(done), "waits": listed(waits), "verb": "wait" if len(waits) > 1 else "waits"}


def _waits_for_variables(evidence: Evidence) -> Words | None:
    """Check whether a worker waits for variables that the leader has to initialize, while the leader does not wait."""
    waits = [task for task in evidence.stuck if task.doing.startswith(_FOR_THE_CHIEF)]
    chief = next((task for task in evidence.stuck if evidence.job and task.task == evidence.job.leader), None)
    if not waits or chief is None or not chief.doing or chief.doing.startswith((_FOR_THE_CHIEF, *CONNECTS)):
        return None
    return {"waits": str(waits[0].task), "chief": str(chief.task), "doing": chief.doing}


def _all_in_a_session(id_: str) -> Condition:
    """Return a condition: no training task gets beyond its session, and `check` has a finding with this id."""

    def holds(evidence: Evidence) -> Words | None:
        doing = [task.doing for task in evidence.stuck if task.task.trains]
        in_a_step = any(each.startswith(_IN_A_SESSION) for each in doing)
        waits = in_a_step and all(each.startswith((_IN_A_SESSION, _FOR_THE_CHIEF)) for each in doing)
        return found(id_)(evidence) if waits else None

    return holds


def _only_serves(evidence: Evidence) -> Words | None:
    """Check whether the leader of the job waits in Server.join, so no task trains."""
    serves = [str(task.task) for task in evidence.stuck if task.doing.startswith("waits in Server.join")]
    if evidence.job is None or str(evidence.job.leader) not in serves:
        return None
    tasks = listed([number_of(kind, count) for kind, count in evidence.job.counts.items() if count])
    return {"leader": str(evidence.job.leader), "tasks": tasks}


def _no_data(evidence: Evidence) -> Words | None:
    """Check whether every main thread waits, and only one task runs code of the program in another thread."""
    stuck = evidence.stuck
    if len(stuck) < 2 or not all(task.doing.startswith((*IN_A_STEP, _WAITS_FOR_DATA)) for task in stuck):
        return None
    busy = [task for task in stuck if task.threads]
    if len(busy) != 1:
        return None
    waits = listed([str(task.task) for task in stuck if task is not busy[0]])
    return {"busy": str(busy[0].task), "place": busy[0].threads[0], "waits": waits}


def _no_answer(evidence: Evidence) -> Words | None:
    """Check whether a task waits in its strategy for the other tasks of its cluster."""
    waits = [str(task.task) for task in evidence.stuck if task.doing.startswith(CONNECTS)]
    return {"waits": listed(waits), "verb": "wait" if len(waits) > 1 else "waits"} if waits else None


_FOR_A_PROCESS = tuple(f"waits for {what}" for what in ("another process", "a pipe", "a lock", "a future", "a queue"))


def _for_a_fork(evidence: Evidence) -> Words | None:
    """Check whether a task waits for a process that the program has forked."""
    waits = [task for task in evidence.stuck if task.doing.startswith((*_FOR_A_PROCESS, *IN_A_STEP, _WAITS_FOR_DATA))]
    return {"waits": str(waits[0].task)} if waits and found("forks")(evidence) is not None else None


def _never_ends(evidence: Evidence) -> Words | None:
    """Check whether the run's timeout ended it, and `check` has found endless data."""
    return found("endless-epoch")(evidence) if evidence.state is RunState.TIMED_OUT else None


ROWS: tuple[Row, ...] = (
    Row(
        "late-to-the-strategy",
        "MultiWorkerMirroredStrategy() hangs: another worker has not created its strategy yet",
        "",
        "{late} {doing} and has not created its strategy yet, so MultiWorkerMirroredStrategy() does not return in "
        "{waits}.",
        "Create the strategy first in every worker, and prepare or download data afterwards. Or allow more time for "
        "the start: clusterkit up --startup-timeout 10m.",
        _late,
        example=(*_TWO, "--startup-timeout", "15s"),
        facts_only=True,
    ),
    Row(
        "no-answer",
        "MultiWorkerMirroredStrategy() (ParameterServerStrategy()) hangs: a task of the cluster does not answer",
        "",
        "{waits} {verb} in the strategy, which connects to every task of its cluster. One of these tasks does not "
        "answer: it was never started, or does not listen at the address that the cluster has for it.",
        "Leave TF_CONFIG and the strategy's resolver as clusterkit sets them, or run the job with --tf-config ours, "
        "which ignores the program's own. In a cluster of your own, start every task, at an address that all other "
        "tasks can reach.",
        _no_answer,
        ("tensorflow/tensorflow#46931", "tensorflow/tensorflow#46827"),
        (*_TWO, "--timeout", "40s"),
        facts_only=True,
        general=True,
    ),
    Row(
        "ends-before-the-strategy",
        "MultiWorkerMirroredStrategy() hangs: another worker's program ended before it created a strategy",
        "",
        "{task} ended its program without an error and without connecting to the other workers, while {waits} waited "
        "for it.",
        "Let every worker create the strategy and train. Before the strategy, leave out conditions on the task and "
        "calls of sys.exit().",
        _left,
        example=(*_TWO, "--startup-timeout", "15s"),
        facts_only=True,
        over=("leaves-early",),
    ),
    Row(
        "fewer-steps-in-a-session",
        "SyncReplicasOptimizer: Session.run hangs after another worker has ended with exit code 0",
        "",
        "{done} ended without an error, and {waits} still {verb} in Session.run. With SyncReplicasOptimizer, a step is "
        "complete only when replicas_to_aggregate gradients have arrived, and too few workers are left for this.",
        "Let all workers make the same number of steps, for example by repeating the data of a worker that has less. "
        "Pass stop_grace_period_secs=5 to MonitoredTrainingSession (stop_grace_secs to Supervisor), since the chief "
        "otherwise waits up to 2 min for a thread when it closes the session.",
        _ended_in_a_session,
        ("tensorflow/tensorflow#20342",),
        ("--workers", "1", "--ps", "1", "--timeout", "40s"),
        facts_only=True,
    ),
    Row(
        "variables-that-the-chief-lacks",
        "Workers hang in prepare_or_wait_for_session (MonitoredTrainingSession), but the chief trains",
        "",
        "{waits} waits until all its global variables have values, while {chief} {doing}. If {chief} already trains, "
        "{waits} has variables that {chief} lacks, since the chief initializes only the variables of its own graph.",
        "Give the variables the same names in all tasks, without the time, a random number or the task's index. "
        "Create variables that each worker needs for itself with collections=[tf.GraphKeys.LOCAL_VARIABLES].",
        _waits_for_variables,
        ("tensorflow/tensorflow#2472", "google-research/batch-ppo#17"),
        ("--workers", "1", "--ps", "1", "--timeout", "40s"),
        facts_only=True,
    ),
    Row(
        "collectives-without-a-leader",
        "collective_ops.all_reduce hangs in Session.run in all workers",
        "",
        "The servers have no common leader for collective operations, so each worker waits for the others.",
        "Set config.experimental.collective_group_leader = '/job:worker/replica:0/task:0', and pass config to "
        "tf.distribute.Server and to the session.",
        _all_in_a_session("collectives-without-a-leader"),
        ("tensorflow/tensorflow#31499",),
        (*_TWO, "--timeout", "40s"),
        facts_only=True,
    ),
    Row(
        "sync-replicas-without-the-hook",
        "SyncReplicasOptimizer hangs in the first Session.run",
        "",
        "SyncReplicasOptimizer waits for tokens from a thread of the chief, but the program does not start it.",
        "Pass the optimizer's hook to the session: hooks=[optimizer.make_session_run_hook(is_chief, num_tokens=0)].",
        _all_in_a_session("sync-replicas-without-the-hook"),
        ("tensorflow/tensorflow#2386", "tensorflow/tensorflow#13854"),
        ("--workers", "1", "--ps", "1", "--timeout", "40s"),
        facts_only=True,
        over=("fewer-steps-in-a-session", "variables-that-the-chief-lacks"),
    ),
    Row(
        "only-serves",
        "Every task waits in Server.join(), and none of them trains",
        "",
        "{leader} waits in Server.join(), so no task trains. The program trains only in a task of another type, and "
        "this job has no such task ({tasks}).",
        "With parameter servers, let the chief train and all other tasks serve: if task_type != 'chief': "
        "server.join(). The option --ps 1 adds a chief to the workers. Without parameter servers, remove the servers "
        "from the program: MultiWorkerMirroredStrategy starts its own.",
        _only_serves,
        ("tensorflow/models#11143", "tensorflow/tensorflow#22407"),
        (*_TWO, "--timeout", "30s"),
        facts_only=True,
        over=("hosts-of-another-cluster",),
    ),
    Row(
        "forks",
        "A multiprocessing process (Pool, use_multiprocessing=True) hangs after TensorFlow was used",
        "",
        "{waits} waits for a process that was forked after TensorFlow had started its threads. A forked process does "
        "not have these threads, so it hangs.",
        'Start processes with multiprocessing.get_context("spawn") before TensorFlow is used, or use threads.',
        _for_a_fork,
        ("tensorflow/tensorflow#8220", "tensorflow/tensorflow#51832", "tensorflow/tensorflow#35879"),
        ("--workers", "1", "--timeout", "30s"),
        facts_only=True,
    ),
    Row(
        "endless-epoch",
        "Epoch 1/3: training never ends, and the progress bar has no total",
        "",
        "The data never ends and fit is given no number of steps, so the first epoch never ends.",
        "Pass steps_per_epoch to fit, or leave repeat() out.",
        _never_ends,
        example=(*_TWO, "--timeout", "30s"),
        facts_only=True,
    ),
    Row(
        "data-of-one-worker",
        "All workers hang in a step: one of them gets no data from its generator",
        "",
        "{busy} waits for data, because the code that produces the data is stuck at {place}. {waits} cannot finish "
        "the step either.",
        "Let a generator, a py_function or a PyDataset end or raise an exception instead of waiting forever, and give "
        "every worker the same amount of data.",
        _no_data,
        example=(*_TWO, "--stall-timeout", "8s"),
        facts_only=True,
        over=("waits-alone",),
    ),
)
