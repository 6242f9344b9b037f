"""Rows about workers whose calls or amounts of work differ, and calls in the wrong replica context."""

from __future__ import annotations

import re

from clusterkit.explain.frames import not_through, own_line, showing, through
from clusterkit.explain.row import HOLDS, Condition, Evidence, Row, TaskEvidence, Words
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
        "place": own_line(other.text) or "an unknown line",
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
    return words | ({"advice": f"Call {call[1]} in all workers, and print the result in only one."} if call else {})


def _while_the_model_is_built(evidence: Evidence) -> Words | None:
    """Check whether the shapes of variables did not match when the workers built the model.

    Keras says so only if the error arrives while it builds: TensorFlow learns of it in the background, and one of the
    next operations of `fit` raises it. Such an error is one of the model, and not of the calls, if it arrives before
    the first step, outside a graph, and both shapes are those of matrices: what `fit` adds up itself before its first
    step are numbers. Rows that are gathered have the shape of a matrix as well, but their operation is named.
    """
    text = evidence.first.text
    if "Unable to automatically build the model" in text:
        return HOLDS
    mismatch = re.search(SHAPES, text)
    if mismatch is None or evidence.job is None or evidence.first.step is not None:
        return None
    in_fit = re.search(KERAS.format("fit"), text) and "Graph execution error" not in text
    of_variables = "__wrapped__Collective" in text and "CollectiveGather" not in text
    matrices = all(mismatch[shape].count(",") for shape in ("mine", "other"))
    return HOLDS if in_fit and of_variables and matrices else None


ROWS: tuple[Row, ...] = (
    Row(
        "different-epochs",
        "UnavailableError: … stopped sending heartbeats, in model.fit: one worker has stopped training",
        "",
        "{left} ended its program{steps}, while {waits} was still training at {place}. In each step, fit waits for "
        "all workers.",
        "Give all workers the same epochs, steps_per_epoch and number of batches. Callbacks must decide by values "
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
        "{left} ended its program, and {waits} waits for it at {place}. Like fit, evaluate and predict need all "
        "workers.",
        "Call evaluate and predict in all workers, and print the result in only one.",
        left(KERAS.format("(?:evaluate|predict)")),
        example=GANG,
        facts_only=True,
        over=("leaves-early",),
    ),
    Row(
        "only-the-chief-saves",
        "UnavailableError: … stopped sending heartbeats, in save or write on the chief",
        "",
        "{left} ended its program, and {waits} waits for it at {place}. Saving needs all workers, because the "
        "strategy reads variables that are summed over all workers.",
        "Save in all workers. Let every worker except the chief save to a directory of its own and delete that "
        "directory afterwards. clusterkit.training.Checkpointer does this.",
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
        "Let all workers call run, reduce and gather equally often. Add .repeat() to data that ends early, and count "
        "the steps. Do not let one worker alone stop at a bad loss or after an exception.",
        left(),
        ("GoogleCloudPlatform/vertex-pipelines-end-to-end-samples#20",),
        GANG,
        facts_only=True,
    ),
    Row(
        "calls-differ",
        "InvalidArgumentError: … Shape mismatch in the collective instance …, in model.fit",
        rf"{MISMATCH}|Collective instance \d+ expected type",
        "At {line}, the call of {task} does not match that of the other workers. One worker evaluates, predicts or "
        "reads a metric while the others train, has more or fewer batches than the others, or has a model with other "
        "shapes.",
        "Let all workers make the same calls in the same order, without a condition on the task, and for the same "
        "number of batches: .repeat() and steps_per_epoch=N.",
        showing(r"trainer\.py\", line \d+, in (?:fit|evaluate|predict)$|^ +[\w. =]+\.(?:fit|evaluate|predict)\("),
        ("tensorflow/tensorflow#34156",),
        GANG,
        over=("shapes-differ", "types-of-a-collective-differ"),
    ),
    Row(
        "shapes-differ",
        "InvalidArgumentError: Collective ops is aborted by: Shape mismatch in the collective instance …",
        SHAPES,
        "At {line}, the workers add up values of different shapes, {mine} and {other}. Their data or models differ, "
        "or one worker makes another call.",
        "Give the values the same shape in all workers (for batches: drop_remainder=True), or use strategy.gather.",
        reported=("tensorflow/tensorflow#56885", "tensorflow/tensorflow#34156"),
        example=GANG,
    ),
    Row(
        "gather-of-different-rows",
        "InvalidArgumentError: … CollectiveGatherV2 … Shape mismatch in the collective instance …",
        SHAPES,
        "At {line}, the workers gather values whose rows have different shapes, {mine} and {other}. gather allows "
        "different sizes only along its axis.",
        "Pad the rows to the same shape first, for example with tf.pad.",
        through("CollectiveGatherV2"),
        example=GANG,
        over=("shapes-differ", "calls-differ"),
    ),
    Row(
        "models-differ",
        "RuntimeError: Unable to automatically build the model … Shape mismatch in the collective instance",
        MISMATCH,
        "The workers build different models. worker:0 sends its variables to the other workers in the order in which "
        "the variables are created.",
        "Build the same layers in the same order in all workers. If the layers depend on chance, call "
        "tf.keras.utils.set_random_seed(1).",
        _while_the_model_is_built,
        example=GANG,
        over=("calls-differ", "shapes-differ", "variables-in-another-order"),
    ),
    Row(
        "variables-in-another-order",
        "InvalidArgumentError: {{function_node …CollectiveBcastRecv… Shape mismatch in the collective instance",
        rf"CollectiveBcast(?:Recv|Send)[^\n]*{MISMATCH}",
        "At {line}, the workers create different variables, or the same variables in a different order. worker:0 "
        "sends each variable to the other workers.",
        "Create the same variables in the same order in all workers. Iterate over lists, not sets.",
        example=GANG,
        over=("calls-differ", "shapes-differ"),
    ),
    Row(
        "types-of-a-collective-differ",
        "InternalError: … Collective instance 100 expected type 0 and data_type 1 but got …",
        r"Collective instance \d+ expected type \d+ and data_type \d+ but got type \d+ and data_type \d+"
        r"|Mismatched (?:data types|\w+ (?:CPU/GPU device selection|tensor shapes|operations|root ranks)): One rank"
        r"|submitted to be reduced, gathered or broadcasted by subset of ranks",
        "At {line}, the workers make different calls: one worker reduces, gathers or broadcasts something else, or "
        "nothing.",
        "Let all workers make the same calls in the same order, without a condition on the task.",
        example=GANG,
    ),
    Row(
        "groups-of-different-sizes",
        "Collective ops is aborted by: Device … is joining a group with size2, but that group has size 3",
        r"is joining a group with size ?\d+, but that group has size"
        r"|Collective Op[^\n]{0,200}has group_size \d+ and group_key ?\d+ but that group has size"
        r"|tf\.distribute expects every worker to have the same number of replicas|Mismatched number of GPUs per worker"
        r"|All workers should have the same number of GPUs",
        "At {line}, {task} joins a group of workers that has another size. Either the workers have different numbers "
        "of GPUs, or one process trains with several strategies of different sizes, one after the other.",
        "Give every worker the same number of GPUs (--gpus-per-task 1, CUDA_VISIBLE_DEVICES), and run each training "
        "in its own process.",
        reported=("tensorflow/tensorflow#33979", "tensorflow/tensorflow#61314"),
        example=GANG,
        over=("peer-gone",),
    ),
    Row(
        "collective-timeout",
        "DeadlineExceededError: … Collective has timed out waiting for other workers.",
        "Collective has timed out waiting for other workers|Collective has timed out during execution",
        "{task} waited for the other workers for longer than the timeout_seconds of the strategy's "
        "CommunicationOptions.",
        "Make timeout_seconds longer than the slowest step of any worker, including reading data, evaluation and "
        "checkpoints, or leave timeout_seconds out.",
        example=GANG,
    ),
    Row(
        "reduce-in-a-replica",
        "RuntimeError: Method requires being in cross-replica context, use get_replica_context().merge_call()",
        CROSS,
        "{line} calls a method of the strategy, such as reduce or scope, in a function that strategy.run calls.",
        "Call reduce and gather outside that function, on the result of strategy.run, and create models and variables "
        "in strategy.scope() beforehand. Inside the function, use tf.distribute.get_replica_context().all_reduce(…).",
        not_through("train_on_batch"),
        example=GANG,
    ),
    Row(
        "train-on-batch-in-run",
        "RuntimeError: Method requires being in cross-replica context, in train_on_batch",
        rf"/keras/src/[^\n]*, in train_on_batch\b(?s:.){{0,2000}}{CROSS}",
        "{line} calls Keras's train_on_batch in each replica, but train_on_batch itself distributes its batch.",
        "Call model.train_on_batch(x, y) without strategy.run, with batches of the plain dataset instead of the "
        "distributed one. Or call model.fit(dataset).",
        reported=("tensorflow/tensorflow#41773",),
        example=GANG,
    ),
    Row(
        "replica-context-outside-run",
        "AttributeError: 'NoneType' object has no attribute 'all_reduce'",
        r"'NoneType' object has no attribute '(?P<name>replica_id_in_sync_group|num_replicas_in_sync|all_\w+)'",
        "{line} uses the replica context outside of a function that strategy.run calls, but only such a function has "
        "one.",
        "Use {name} in that function, or use strategy.reduce(…) outside of it.",
        example=GANG,
    ),
    Row(
        "gradients-outside-run",
        "AttributeError: 'NoneType' object has no attribute 'merge_call'",
        r"'NoneType' object has no attribute 'merge_call'"
        r"|apply(?:_gradients)?\(\)?`? (?:must be called in a replica|cannot be called in cross-replica) context"
        r"|Use `_distributed_apply\(\)` instead of `apply_gradients\(\)` in a cross-replica context",
        "{line} applies gradients outside of a function that strategy.run calls. The optimizer adds up the gradients "
        "of all replicas, but outside of such a function there is no replica.",
        "Write a function that computes and applies the gradients, and call strategy.run(function, args=(batch,)).",
        reported=("tensorflow/tensorflow#36955", "tensorflow/tensorflow#21180"),
        example=GANG,
        over=("replica-context-outside-run",),
    ),
    Row(
        "assign-to-a-sum",
        "ValueError: SyncOnReadVariable does not support `assign_add` in cross-replica context …",
        r"SyncOnReadVariable does not support `\w+` in cross-replica|Replica-local variables may only be assigned",
        "{line} assigns to a variable outside of strategy.run, but the value of this variable is the sum of its "
        "values in all replicas.",
        "Assign to the variable, or call the metric's update_state, in a function that strategy.run calls. Create the "
        "model and its metrics in strategy.scope().",
        reported=("tensorflow/tensorflow#56875", "keras-team/keras-io#558"),
        example=GANG,
    ),
    Row(
        "batch-not-divisible",
        "ValueError: The `global_batch_size` 7 is not divisible by `num_replicas_in_sync` 2",
        r"The `(?:global_batch_size` |batch_size` argument \()(?P<size>\d+)\)? (?:is not|must be) divisible by "
        r"(?:`num_replicas_in_sync` |the number of replicas \()(?P<replicas>\d+)",
        "The global batch size at {line}, {size}, is not divisible by the number of replicas, {replicas}.",
        "Make the global batch size a multiple of the number of replicas: batch_size = per_replica * "
        "strategy.num_replicas_in_sync.",
        reported=("tensorflow/tensorflow#32077",),
        example=GANG,
    ),
    Row(
        "barrier-timeout",
        "DeadlineExceededError: Barrier timed out. Id: …",
        r"Barrier timed out\. Id: (?P<barrier>[^\n]{1,60}?)(?:::\d+)?\. [\s\S]{0,600}?"
        r"Some timed out task names:\s+/job:(?P<job>\w+)/replica:\d+/task:(?P<index>\d+)",
        "{task} waited at the barrier {barrier}, but {job}:{index} did not reach the barrier in time.",
        "Look at what {job}:{index} does instead. It may have ended, or be slower because of its data, a download or "
        "a compilation.",
        example=GANG,
    ),
    Row(
        "waits-alone",
        "A worker hangs, and the others wait for it in a collective operation",
        "",
        "One worker waits for something else, while the other workers wait for it in a collective operation.",
        "Do this waiting before training, or give the worker's data the same length as that of the other workers "
        "(.repeat()).",
        _waits_alone,
        example=(*GANG, "--stall-timeout", "8s"),
        facts_only=True,
    ),
)
