"""Rows about runs without an error, in which only the log shows what went wrong, such as a warning of TensorFlow."""

from __future__ import annotations

import re

from clusterkit.explain.row import Evidence, Row, Words, found, logged
from clusterkit.text.lines import last_exception
from clusterkit.words.model import ProgramKind
from clusterkit.words.outcome import RunState

_LINES_AFTER = 6  # lines of a command's log after an exception that may have ended its last program
_ONE = ("--workers", "1")

_NO_METRIC = logged(
    "(?:Can save best model only with|Early stopping conditioned on metric"
    r"|Learning rate reduction is conditioned on metric) `?(?P<metric>[\w/]+)"
)


def _metric(evidence: Evidence) -> Words | None:
    """Check whether a Keras callback warns that a metric is missing, and no epoch's output shows the metric."""
    words = _NO_METRIC(evidence)
    return words if words is not None and f" {words['metric']}: " not in evidence.log else None


_RETRACED = re.compile(
    r"out of the last \d+ calls to <function (?P<qualname>[\w.<>]{1,300}) at \S{1,100}> "
    r"triggered tf\.function retracing"
)
# How the functions of TensorFlow and Keras are called that they compile themselves: fit, savers, optimizers, layers.
_LIBRARY = re.compile(
    r"TensorFlowTrainer|Model\.|\w*Saver\.|\w*Optimizer\w*\.|\w*Metric\.|\w*Layer\.|\w*Loss\.|\w*Strategy\w*\."
    r"|\w*(?:Replica|Input)Context\.|\w*Checkpoint\w*\.|\w*(?:Dataset|Iterator)\w*\.|pfor\b|\w*PFor\w*\."
    r"|(?:\w+\.<locals>\.)*(?:tf_function_\w+|one_step_on_\w+|multi_step_on_\w+|(?:train|test|predict)_function)$"
)


def _retraced(evidence: Evidence) -> Words | None:
    """Check whether TensorFlow warns of retracing a function that the program defines.

    TensorFlow and Keras retrace functions of their own, such as those that write a checkpoint; nobody can change that.
    """
    for warned in _RETRACED.finditer(evidence.log):
        parts = [part for part in warned["qualname"].split(".") if not part.startswith("<")]
        own = evidence.own
        is_own = _LIBRARY.match(warned["qualname"]) is None if own is None else own.issuperset(parts)
        if parts and is_own:
            return {"name": parts[-1]}
    return None


_NO_DEVICES = logged(
    r"Some requested devices in `tf\.distribute\.Strategy` are not visible to TensorFlow: (?P<devices>\S+)"
)
_NO_GPUS = logged("failed call to cuInit|Could not find cuda drivers|Skipping registering GPU devices")


def _devices(evidence: Evidence) -> Words | None:
    """Check whether a strategy lacks devices: TensorFlow reports this, or found no GPU and a strategy on GPUs hangs."""
    hangs = evidence.stuck and _NO_GPUS(evidence) is not None and found("devices-not-there")(evidence) is not None
    return {"devices": "its GPUs"} if hangs else _NO_DEVICES(evidence)


_NO_SERVICE = logged(r"Failed to [\w ]{1,40} dispatcher at (?P<address>\S{1,200}): UNAVAILABLE: [^\n]*Will retry in ")


def _service(evidence: Evidence) -> Words | None:
    """Check whether the run hung while TensorFlow kept trying to reach a dispatcher of tf.data service."""
    return _NO_SERVICE(evidence) if evidence.stuck or evidence.job is None else None


_LOST_STATE = logged(
    r"Skipping variable loading for optimizer '[^'\n]{1,100}', because it has (?P<count>\d+) variables whereas the "
    r"saved optimizer has (?P<saved>\d+) variables(?=[\s\S]*^Epoch \d+/\d+)"
)


def _optimizer(evidence: Evidence) -> Words | None:
    """Check whether Keras restored an optimizer without variables, and `fit` began an epoch afterwards."""
    words = _LOST_STATE(evidence)
    return words if words is not None and int(words["count"]) < int(words["saved"]) else None


def _hidden_failure(evidence: Evidence) -> Words | None:
    """Check whether a command succeeded although its log ends with the exception of a Python program."""
    if evidence.job is None or evidence.job.program.kind is not ProgramKind.COMMAND:
        return None
    lines = [line for line in evidence.log.split("\n") if line.strip()]
    error = last_exception(lines) if evidence.state is RunState.SUCCEEDED else None
    if error is None or error not in lines[-_LINES_AFTER:]:
        return None
    return {"error": error, "command": evidence.job.program.target}


ROWS: tuple[Row, ...] = (
    Row(
        "steps-without-a-graph",
        "Using MirroredStrategy eagerly has significant overhead currently: training is very slow",
        "",
        "strategy.run is called outside of a tf.function, so each operation of each step is executed on its own, "
        "which takes many times as long.",
        "Put @tf.function on the function that calls strategy.run, so that the whole step is compiled once. Leave out "
        "run_eagerly=True and tf.config.run_functions_eagerly(True).",
        logged(r"Using \w+ eagerly has significant overhead(?:(?s:.)*?Using \w+ eagerly has significant overhead){2}"),
        ("tensorflow/tensorflow#27195", "noahchalifour/rnnt-speech-recognition#18"),
        _ONE,
        facts_only=True,
    ),
    Row(
        "traced-in-each-step",
        "WARNING:tensorflow:5 out of the last 5 calls to <function …> triggered tf.function retracing",
        "",
        "TensorFlow rebuilds the graph of {name} in nearly every call, which takes much longer than a step.",
        "Define the tf.function once, outside of the loop and of functions that the loop calls. Pass tensors, such as "
        "tf.constant(step), instead of Python numbers. Give all batches the same shape with drop_remainder=True.",
        _retraced,
        ("tensorflow/tensorflow#33320", "tensorflow/tensorflow#34025", "keras-team/tf-keras#254"),
        _ONE,
        facts_only=True,
    ),
    Row(
        "metric-not-there",
        "Can save best model only with val_loss available (Early stopping conditioned on metric …)",
        "",
        "A callback waits for the metric {metric}, which fit does not compute, so the callback never saves, stops or "
        "changes anything.",
        "Pass validation_data to fit, since there is no val_loss without it. Or give the callback another monitor, "
        "such as loss or a metric that was passed to compile.",
        _metric,
        ("tensorflow/tensorflow#33163",),
        _ONE,
        facts_only=True,
    ),
    Row(
        "optimizer-not-restored",
        "UserWarning: Skipping variable loading for optimizer 'adam', because it has 2 variables whereas the saved "
        "optimizer has 6 variables",
        "",
        "When the program loaded the weights, its optimizer did not have its variables yet, so Keras skipped the "
        "optimizer's state. The training continued without it, such as without Adam's moments.",
        "Call model.optimizer.build(model.trainable_variables) before model.load_weights(…). Or load the whole model, "
        "with its optimizer, by tf.keras.models.load_model.",
        _optimizer,
        ("tensorflow/tensorflow#44518",),
        _ONE,
        facts_only=True,
    ),
    Row(
        "command-hides-a-failure",
        "A shell script exits with 0 although its Python program failed, for example in python train.py | tee log.txt",
        "",
        "A Python program that {command} starts ended with an exception, {error}. But {command} exited with code 0, so "
        "the run counts as successful.",
        "Let the command fail if the program fails, so that clusterkit can restart the task: begin a bash script with "
        "`set -eo pipefail`, or start its last program by exec.",
        _hidden_failure,
        example=(*_ONE, "env", "python3"),
        facts_only=True,
    ),
    Row(
        "devices-not-there",
        "Some requested devices in `tf.distribute.Strategy` are not visible to TensorFlow: …/device:GPU:0",
        "",
        "The program passes devices to its strategy that TensorFlow does not find on this machine: {devices}.",
        "Leave the list of devices out, so that the strategy uses all devices that it finds, or print "
        "tf.config.list_physical_devices() to see them. If the GPUs are missing, install tensorflow[and-cuda] and "
        "check nvidia-smi.",
        _devices,
        ("tensorflow/models#8560",),
        (*_ONE, "--timeout", "40s"),
        facts_only=True,
    ),
    Row(
        "dispatcher-not-there",
        "tf.data service: training hangs in the first step, Failed to register dataset with dispatcher … Will retry",
        "",
        "The data comes from tf.data service, but nothing listens at its dispatcher's address, {address}. TensorFlow "
        "keeps trying to connect, but logs this only at level INFO.",
        "Before the training, start a tf.data.experimental.service.DispatchServer at that address, and WorkerServers "
        "with it. Pass distribute() an address that all workers can reach: service=dispatcher.target.",
        _service,
        ("tensorflow/tensorflow#52252", "SamsungLabs/FastFlow#2"),
        ("--workers", "1", "--timeout", "25s"),
        facts_only=True,
    ),
)
