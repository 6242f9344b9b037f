"""Rows about workers whose calls or amounts of work differ, and calls in the wrong replica context."""

from __future__ import annotations

import re

from clusterkit.explain.frames import not_through, own_line, showing, through
from clusterkit.explain.row import Condition, Evidence, Row, TaskEvidence, Words
from clusterkit.text.spelling import listed

GANG = ("--workers", "2")
MISMATCH = r"Shape mismatch in the collective instance \d+"
SHAPES = rf"{MISMATCH}\. Op at device [^\n]{{0,200}} expected shape (?P<mine>\[[\d,]*\]) but another member "
SHAPES += r"in the group expected shape (?P<other>\[[\d,]*\])"
LEFT = (
    r"Collective ops is aborted|stopped sending heartbeats|[Hh]eartbeat timeout|Socket closed|Connection reset by peer"
)
CROSS = r"Method requires being in cross-replica context, use get_replica_context\(\)\.merge_call\(\)"
IN_A_STEP = ("waits in TensorFlow's runtime", "waits in fit", "waits in evaluate", "waits in predict")
KERAS = r"\.{0}\([^\n]*\n(?:[ ^~]+\n)?[^\n]*/traceback_utils\.py"  # a call, and the only frame that Keras does not hide
SAVES = r"/(?:checkpoint|saved_model|saving)/[\w/]*\.py\", line \d+, in (?:save|write|_save\w*|save_model)$"


def left(where: str = "") -> Condition:
    """Return a condition that holds if a worker ended without an error, and a peer's resulting error matches `where`.

    The condition's values are {left} (the worker that ended), {waits} (the peer), {place} (the line of the program at
    which the peer waited) and {steps} (a clause with the last step of {left}).
    """

    def holds(evidence: Evidence) -> Words | None:
        first = evidence.first
        if first.exit is None or not first.exit.ok:
            return None
        for other in evidence.tasks[1:]:
            if re.search(LEFT, other.text) and re.search(where, other.text, re.MULTILINE):
                return _words(first, other)
        return None

    return holds


def _words(first: TaskEvidence, other: TaskEvidence) -> Words:
    steps = f", after step {first.step}" if first.step is not None else ""
    return {
        "left": first.name,
        "waits": other.name,
        "place": own_line(other.text) or "its program",
        "steps": steps,
    }


def _waits_alone(evidence: Evidence) -> Words | None:
    """Check whether all workers but one wait in a step or a collective operation."""
    alone = [task for task in evidence.stuck if not task.doing.startswith(IN_A_STEP)]
    waits = [task for task in evidence.stuck if task.doing.startswith(IN_A_STEP)]
    if len(alone) != 1 or not waits:
        return None
    others = listed([str(task.task) for task in waits])
    words = {"means": f"{alone[0].task} {alone[0].doing}, while {others} waited for it in a collective operation."}
    call = re.match("waits in (evaluate|predict) ", waits[0].doing)
    return words | ({"advice": f"Call {call[1]} in all workers, and print the result in one."} if call else {})


ROWS: tuple[Row, ...] = (
    Row(
        "different-epochs",
        "UnavailableError: … stopped sending heartbeats, in model.fit: one worker has stopped training",
        "",
        "{left} ended its program{steps}, and {waits} still trained at {place}: fit waits for all workers in each "
        "step.",
        "Give all workers the same epochs, steps_per_epoch and number of batches, and let callbacks decide by values "
        "that are the same in all workers.",
        left(KERAS.format("fit")),
        ("tensorflow/tensorflow#58434",),
        GANG,
        facts_only=True,
        over=("leaves-early",),
    ),
    Row(
        "only-the-chief-evaluates",
        "UnavailableError: … stopped sending heartbeats, in model.evaluate or model.predict on the chief",
        "",
        "{left} ended its program, and {waits} waits for it at {place}: evaluate and predict need all workers, as fit "
        "does.",
        "Call them in all workers, and print the result in one.",
        left(KERAS.format("(?:evaluate|predict)")),
        example=GANG,
        facts_only=True,
        over=("leaves-early",),
    ),
    Row(
        "only-the-chief-saves",
        "UnavailableError: … stopped sending heartbeats, in save or write on the chief",
        "",
        "{left} ended its program, and {waits} waits for it at {place}: to save, a strategy reads variables that are "
        "summed over all workers.",
        "Save in all workers, each but the chief to a directory of its own, which it deletes; "
        "clusterkit.training.Checkpointer does this.",
        left(SAVES),
        ("tensorflow/tensorflow#38635", "ray-project/raydp#447"),
        GANG,
        facts_only=True,
        over=("leaves-early",),
    ),
    Row(
        "leaves-early",
        "UnavailableError: Collective ops is aborted by: … after another worker has ended with exit code 0",
        "",
        "{left} ended its program without an error{steps}, and {waits} waits for it at {place}.",
        "Let all workers make the same calls of run, reduce and gather, equally often: .repeat() data that ends early "
        "and count the steps, and let no worker alone stop at a bad loss or after an exception.",
        left(),
        ("GoogleCloudPlatform/vertex-pipelines-end-to-end-samples#20",),
        GANG,
        facts_only=True,
    ),
    Row(
        "calls-differ",
        "InvalidArgumentError: … Shape mismatch in the collective instance …, in model.fit",
        rf"{MISMATCH}|Collective instance \d+ expected type",
        "At {line}, {task} met another call of the other workers: one of them evaluates, predicts or reads a metric "
        "while the others train, it has more or fewer batches than they, or its model has other shapes.",
        "Let all workers make the same calls in the same order, without a condition on the task around them, and for "
        "as many batches: steps_per_epoch=N, and .repeat().",
        showing(r"trainer\.py\", line \d+, in (?:fit|evaluate|predict)$|^ +[\w. =]+\.(?:fit|evaluate|predict)\("),
        ("tensorflow/tensorflow#34156",),
        GANG,
        over=("shapes-differ", "types-of-a-collective-differ"),
    ),
    Row(
        "shapes-differ",
        "InvalidArgumentError: Collective ops is aborted by: Shape mismatch in the collective instance …",
        SHAPES,
        "At {line}, the workers add up values of different shapes, {mine} and {other}: their data or models differ, "
        "or one of them makes another call.",
        "Give all workers the same shapes (drop_remainder=True for batches), or use strategy.gather.",
        reported=("tensorflow/tensorflow#56885", "tensorflow/tensorflow#34156"),
        example=GANG,
    ),
    Row(
        "gather-of-different-rows",
        "InvalidArgumentError: … CollectiveGatherV2 … Shape mismatch in the collective instance …",
        SHAPES,
        "At {line}, the workers gather values whose rows have different shapes, {mine} and {other}: gather allows "
        "different sizes along its axis alone.",
        "Pad them to one shape first, for example with tf.pad.",
        through("CollectiveGatherV2"),
        example=GANG,
        over=("shapes-differ", "calls-differ"),
    ),
    Row(
        "models-differ",
        "RuntimeError: Unable to automatically build the model … Shape mismatch in the collective instance",
        MISMATCH,
        "The workers build different models: variables are sent from worker:0 to the others, in the order in which "
        "they are created.",
        "Build the same layers in the same order in all workers; if chance decides, tf.keras.utils.set_random_seed(1).",
        through("Unable to automatically build the model"),
        example=GANG,
        over=("calls-differ", "shapes-differ", "variables-in-another-order"),
    ),
    Row(
        "variables-in-another-order",
        "InvalidArgumentError: {{function_node …CollectiveBcastRecv… Shape mismatch in the collective instance",
        rf"CollectiveBcast(?:Recv|Send)[^\n]*{MISMATCH}",
        "At {line}, the workers create different variables, or the same ones in another order: each is sent from "
        "worker:0 to the others.",
        "Create the same variables in the same order in all workers; iterate over lists, not sets.",
        example=GANG,
        over=("calls-differ", "shapes-differ"),
    ),
    Row(
        "types-of-a-collective-differ",
        "InternalError: … Collective instance 100 expected type 0 and data_type 1 but got …",
        r"Collective instance \d+ expected type \d+ and data_type \d+ but got type \d+ and data_type \d+"
        r"|Mismatched (?:data types|\w+ (?:CPU/GPU device selection|tensor shapes|operations|root ranks)): One rank"
        r"|submitted to be reduced, gathered or broadcasted by subset of ranks",
        "At {line}, the workers make different calls: one of them reduces, gathers or broadcasts something else, or "
        "nothing.",
        "Let all workers make the same calls in the same order, without a condition on the task around them.",
        example=GANG,
    ),
    Row(
        "groups-of-different-sizes",
        "Collective ops is aborted by: Device … is joining a group with size2, but that group has size 3",
        r"is joining a group with size ?\d+, but that group has size"
        r"|Collective Op[^\n]{0,200}has group_size \d+ and group_key ?\d+ but that group has size"
        r"|tf\.distribute expects every worker to have the same number of replicas|Mismatched number of GPUs per worker"
        r"|All workers should have the same number of GPUs",
        "At {line}, {task} meets a group of another size: the workers have different numbers of GPUs, or one process "
        "trains with strategies of different sizes after each other.",
        "Give each worker as many GPUs (--gpus-per-task 1, CUDA_VISIBLE_DEVICES), and each training a process.",
        reported=("tensorflow/tensorflow#33979", "tensorflow/tensorflow#61314"),
        example=GANG,
        over=("peer-gone",),
    ),
    Row(
        "collective-timeout",
        "DeadlineExceededError: … Collective has timed out waiting for other workers.",
        "Collective has timed out waiting for other workers|Collective has timed out during execution",
        "{task} waited for the other workers longer than the timeout_seconds of the strategy's CommunicationOptions.",
        "Make the timeout longer than the slowest step of any worker (reading data, evaluation, checkpoints), or leave "
        "it out.",
        example=GANG,
    ),
    Row(
        "reduce-in-a-replica",
        "RuntimeError: Method requires being in cross-replica context, use get_replica_context().merge_call()",
        CROSS,
        "{line} calls a method of the strategy, such as reduce or scope, in the function that strategy.run runs.",
        "Call reduce and gather outside, on what run returns, and make models and variables in scope() before; inside, "
        "use tf.distribute.get_replica_context().all_reduce(…).",
        not_through("train_on_batch"),
        example=GANG,
    ),
    Row(
        "train-on-batch-in-run",
        "RuntimeError: Method requires being in cross-replica context, in train_on_batch",
        rf"/keras/src/[^\n]*, in train_on_batch\b(?s:.){{0,2000}}{CROSS}",
        "{line} runs Keras's train_on_batch in each replica, but that method itself distributes its batch.",
        "Call model.train_on_batch(x, y) without strategy.run, with the batches of the plain dataset and not of the "
        "distributed one; or call model.fit(dataset).",
        reported=("tensorflow/tensorflow#41773",),
        example=GANG,
    ),
    Row(
        "replica-context-outside-run",
        "AttributeError: 'NoneType' object has no attribute 'all_reduce'",
        r"'NoneType' object has no attribute '(?P<name>replica_id_in_sync_group|num_replicas_in_sync|all_\w+)'",
        "{line} asks for the replica context outside of a function that strategy.run runs, where there is none.",
        "Call {name} inside of that function, or use strategy.reduce(…) outside of it.",
        example=GANG,
    ),
    Row(
        "gradients-outside-run",
        "AttributeError: 'NoneType' object has no attribute 'merge_call'",
        r"'NoneType' object has no attribute 'merge_call'"
        r"|apply(?:_gradients)?\(\)?`? (?:must be called in a replica|cannot be called in cross-replica) context"
        r"|Use `_distributed_apply\(\)` instead of `apply_gradients\(\)` in a cross-replica context",
        "{line} applies gradients outside of a function that strategy.run runs: the optimizer adds up the gradients of "
        "all replicas, and there is none.",
        "Write a function that computes and applies the gradients, and call strategy.run(function, args=(batch,)).",
        reported=("tensorflow/tensorflow#36955", "tensorflow/tensorflow#21180"),
        example=GANG,
        over=("replica-context-outside-run",),
    ),
    Row(
        "assign-to-a-sum",
        "ValueError: SyncOnReadVariable does not support `assign_add` in cross-replica context …",
        r"SyncOnReadVariable does not support `\w+` in cross-replica|Replica-local variables may only be assigned",
        "{line} sets outside of strategy.run a variable that is the sum of its values in all replicas.",
        "Set it, or call the metric's update_state that does, in a function that strategy.run runs; create the "
        "model and its metrics in strategy.scope().",
        reported=("tensorflow/tensorflow#56875", "keras-team/keras-io#558"),
        example=GANG,
    ),
    Row(
        "batch-not-divisible",
        "ValueError: The `global_batch_size` 7 is not divisible by `num_replicas_in_sync` 2",
        r"The `(?:global_batch_size` |batch_size` argument \()(?P<size>\d+)\)? (?:is not|must be) divisible by "
        r"(?:`num_replicas_in_sync` |the number of replicas \()(?P<replicas>\d+)",
        "{line} divides a global batch of {size} by {replicas} replicas.",
        "Make the global batch a multiple of it: batch_size = per_replica * strategy.num_replicas_in_sync.",
        reported=("tensorflow/tensorflow#32077",),
        example=GANG,
    ),
    Row(
        "one-file-sharded-by-file",
        "InvalidArgumentError: Could not apply FILE based sharding: the dataset only has 1 file(s)",
        r"Could not apply FILE based sharding: the dataset only has \d+ file\(s\), which is not enough for "
        r"the required \d+ shards|There aren't enough elements in this dataset for each shard to have at least one"
        r"|Cannot shard the pipeline with given `input_context`",
        "The data is shared out by file, and there are fewer files than workers.",
        "Share out its rows (and none by input_context of tfds.ReadConfig): options = tf.data.Options(); options."
        "experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA; "
        "data = data.with_options(options).",
        reported=("tensorflow/tensorflow#36846",),
        example=GANG,
    ),
    Row(
        "barrier-timeout",
        "DeadlineExceededError: Barrier timed out. Id: …",
        r"Barrier timed out\. Id: (?P<barrier>[^\n]{1,60}?)(?:::\d+)?\. [\s\S]{0,600}?"
        r"Some timed out task names:\s+/job:(?P<job>\w+)/replica:\d+/task:(?P<index>\d+)",
        "{task} waited at the barrier {barrier}, and {job}:{index} did not come there in time.",
        "Look at what that task does instead: it may have ended, or be slower (its data, a download, a compilation).",
        example=GANG,
    ),
    Row(
        "waits-alone",
        "A worker hangs, and the others wait for it in a collective operation",
        "",
        "A worker waits for something else while the others wait for it in a collective operation.",
        "Let it wait before training, or make its data as endless as that of the others (.repeat()).",
        _waits_alone,
        example=(*GANG, "--stall-timeout", "8s"),
        facts_only=True,
    ),
)
