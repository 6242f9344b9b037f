"""What TensorFlow, Keras and others said in the programs of mistakes, recorded: each text is explained by its row.

The fixture holds the error of each program of tests/children/mistakes, shortened, below the id of its row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterkit.explain.matching import explain
from clusterkit.explain.row import Evidence, Row, TaskEvidence
from clusterkit.explain.rows import (
    addresses,
    checkpoints,
    combinations,
    data,
    environment,
    keras,
    loops,
    migration,
    names,
    replicas,
    servers,
    sessions,
)
from clusterkit.words.model import ProgramKind
from tests.histories import build_job

_ROOMS = (
    *(addresses, servers, keras, names, migration, sessions, combinations),
    *(data, checkpoints, environment, loops, replicas),
)
ROWS: dict[str, Row] = {row.id: row for room in _ROOMS for row in room.ROWS}
_PARTS = (Path(__file__).parent / "recorded.txt").read_text().split("=== ")[1:]
RECORDED = {id_: text for id_, _, text in (part.partition("\n") for part in _PARTS)}


def test_every_row_is_recorded() -> None:
    """No row without a text, no text without a row."""
    assert sorted(RECORDED) == sorted(ROWS)


@pytest.mark.parametrize("id_", RECORDED)
def test_a_recorded_text_is_explained_by_its_row_alone(id_: str) -> None:
    """Also where the text comes from a log, of which nothing else is known; no sentence lacks a word."""
    evidence = Evidence((TaskEvidence(text=RECORDED[id_]),))
    (explanation,) = explain(evidence)
    assert explanation.row == id_
    for said, template in ((explanation.means, ROWS[id_].means), (explanation.advice, ROWS[id_].advice)):
        assert said.count("…") == template.count("…")


def test_data_that_ends_is_no_matter_of_parameter_servers_in_a_gang() -> None:
    """The row's advice is for coordinators."""
    ended = (TaskEvidence(text=RECORDED["finite-data-on-parameter-servers"]),)
    gang: dict[str, Any] = {"program": "train.py", "workers": 2}
    assert explain(Evidence(ended, build_job(gang, ProgramKind.SCRIPT))) == []
    assert len(explain(Evidence(ended, build_job({**gang, "ps": 1}, ProgramKind.SCRIPT)))) == 1


def test_an_assignment_in_a_condition_is_told_from_one_in_an_inner_function() -> None:
    """AutoGraph names the branch in the traceback."""
    text = RECORDED["assign-in-an-inner-function"]
    (inner,) = explain(Evidence((TaskEvidence(text=text),)))
    assert "in a tf.function that a step calls" in inner.means
    (branch,) = explain(Evidence((TaskEvidence(text=text.replace("in tf__call", "in if_body")),)))
    assert "in a condition or loop of a step" in branch.means
    assert "tf.where(" in branch.advice


ALSO = {  # other texts of a row: of other versions, or from a log without a traceback
    "variable-outside-the-scope": "ValueError: `colocate_vars_with` must only be passed a variable created in this "
    "tf.distribute.Strategy.scope(), not: <tf.Variable 'train_model/arcfacelayer/kernel:0' shape=(512, 85742)>",
    "session-not-ready": "INFO:tensorflow:Waiting for model to be ready.  Ready_for_local_init_op:  Variables not "
    "initialized: global_step, ready: None",
    "not-for-xla": "Trying to access resource dense/kernel/replica_1/3 located in device CPU:1 from device CPU:0\n"
    " Cf. https://www.tensorflow.org/xla/known_issues#tfvariable_on_a_different_device",
    "library-too-old": "ImportError: /lib64/libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by /a/b.so)",
    "optimizer-built-in-a-step": "  (0) INVALID_ARGUMENT:  You must feed a value for placeholder tensor "
    "'StatefulPartitionedCall/cond/else/_32/cond/Placeholder_8' with dtype int32",
    "tensorflow-1-names": "AttributeError: module 'tensorflow' has no attribute 'logging'",
    "peer-gone": "AbortedError: Horovod has been shut down. This was caused by an exception on one of the ranks",
    "groups-of-different-sizes": "Internal:  Collective Op  has group_size 8 and group_key2 but that group has size 4",
    "keras-2-names": "ImportError: cannot import name 'np_utils' from 'keras.utils' (/x/keras/utils/__init__.py)",
    "keras-sessions": "AttributeError: module 'tensorflow.keras.backend' has no attribute 'set_session'",
    "experimental-layers": "ModuleNotFoundError: No module named 'tensorflow.keras.layers.experimental'",
    "contrib": "ModuleNotFoundError: No module named 'tensorflow.examples'",
    "estimators": "AttributeError: module 'keras._tf_keras.keras' has no attribute 'estimator'",
    "dataset-options": "AttributeError: 'OptimizationOptions' object has no attribute 'map_vectorization'",
    "experimental-run-v2": "AttributeError: 'MirroredStrategy' object has no attribute "
    "'experimental_make_numpy_dataset'",
    "placeholders": "RuntimeError: Supervisors are incompatible with eager execution.",
    "fit-generator": "NotImplementedError: `fit_generator` is not supported for models compiled with "
    "tf.distribute.Strategy.",
    "uses-horovod": "ModuleNotFoundError: No module named 'mpi4py'",
    "optimizer-arguments": "ValueError: decay is deprecated in the new Keras optimizer, please check the docstring",
    "gradients-outside-run": "RuntimeError: Use `_distributed_apply()` instead of `apply_gradients()` in a "
    "cross-replica "
    "context.",
    "one-file-sharded-by-file": "InvalidArgumentError:  [_Derived_]There aren't enough elements in this dataset for "
    "each "
    "shard to have at least one element (# elems = 1, # shards = 2).",
    "types-of-a-collective-differ": "FailedPreconditionError: Mismatched ALLREDUCE CPU/GPU device selection: One rank "
    "specified device GPU, but another rank specified device CPU.",
    "devices-set-too-late": "RuntimeError: Inter op parallelism cannot be modified after initialization.",
    "resolver-of-another-platform": "NotFoundError: TPUs not found in the cluster. Failed in initialization: No "
    "OpKernel",
    "numpy-in-a-function": "NotImplementedError: numpy() is only available when eager execution is enabled.",
    "unknown-reduce-operation": "TypeError: Expected `reduce_op` to be a `tf.distribute.ReduceOp`, not: None",
    "task-not-in-the-cluster": "InvalidArgumentError: Cannot assign a device for operation 'x': Operation was "
    "explicitly "
    "assigned to /job:ps/task:0 but available devices are [ /job:localhost/replica:0/task:0/device:CPU:0 ].",
    "device-not-there": "Cannot assign a device for operation x: {{node x}}was explicitly assigned to /device:GPU:0 "
    "but "
    "available devices are [ /job:localhost/replica:0/task:0/device:CPU:0 ]",
    "strategy-too-late": "Cannot assign a device for operation Identity: {{node Identity}} was explicitly assigned to "
    "/job:localhost/replica:0/task:0/device:CPU:0 but available devices are [ "
    "/job:worker/replica:0/task:0/device:CPU:0 ]",
    "tensor-too-large": "InternalError: Dst tensor is not initialized.",
    "dataset-without-a-coordinator": "NotImplementedError: `tf.distribute.experimental.ParameterServerStrategy` must "
    "be "
    "used with `tf.distribute.experimental.coordinator.ClusterCoordinator` in a custom training loop.",
    "strategy-without-a-resolver": "clusterkit: worker:0 has reached the coordinator's code: train.py, line 4, creates "
    "a ParameterServerStrategy, which only the chief can do. Its cluster_resolver is missing, too. Start a "
    "tf.distribute.Server in worker:0 instead",
    "nccl": "tensorflow.python.framework.errors_impl.UnknownError:  ncclCommInitRank failed: unhandled system error",
    "name-not-in-the-checkpoint": "NotFoundError: Key global_step not found in checkpoint",
    "variable-not-initialized": "errors_impl.FailedPreconditionError: Attempting to use uninitialized value weight",
    "inner-modules": "AttributeError: module 'tensorflow.python.framework.ops' has no attribute '_TensorLike'",
    "job-not-in-the-cluster": "ValueError: No such job in cluster: 'ps'",
    "older-python": "ModuleNotFoundError: No module named 'distutils'",
    "library-missing": "ImportError: libcublas.so.9.0: cannot open shared object file: No such file or directory",
    "built-for-another-tensorflow": "NotFoundError: /x/horovod/tensorflow/mpi_lib.cpython-38-x86_64-linux-gnu.so: "
    "undefined symbol: _ZN10tensorflow14kernel_factory17OpKernelRegistrar12InitInternalE",
    "numpy-1-names": "AttributeError: module 'numpy' has no attribute 'object'.",
    "eager-execution-off": "RuntimeError: `tf.data.Dataset` only supports Python-style iteration in eager mode or "
    "within "
    "tf.function.",
    "variable-made-in-a-step": "ValueError: tf.function-decorated function tried to create variables on non-first "
    "call.",
    "optimizer-weights": "AttributeError: 'Adam' object has no attribute 'minimize'",
    "reduction-of-keras-2": "AttributeError: module 'keras.losses' has no attribute 'Reduction'",
    "built-for-one-batch-size": 'ValueError: Input 0 of layer "functional" is incompatible with the layer: expected '
    "shape=(64, 20), found shape=(32, 20)",
    "compile-with-distribute": "ValueError: `distribute` argument in compile is not available in TF 2.0. Please create "
    "the model under the `strategy.scope()`.",
    "add-metric": "AttributeError: 'MyLayer' object has no attribute 'add_update'",
    "no-tf-keras": "ValueError: Your currently installed version of Keras is Keras 3, but this is not yet supported in "
    "Transformers. Please install the backwards-compatible tf-keras package",
    "protobuf-without-versions": "TypeError: Descriptors cannot not be created directly.",
    "tensor-of-another-function": "TypeError: An op outside of the function building code is being passed a Graph "
    "tensor.",
    "graph-under-a-strategy": "    assert tf.compat.v1.executing_eagerly_outside_functions()\nAssertionError",
    "unknown-shapes": '  File "/x/keras/src/layers/a.py", line 1, in b\nValueError: as_list() is not defined on an '
    "unknown TensorShape.",
}


@pytest.mark.parametrize("id_", ALSO)
def test_another_text_of_a_row(id_: str) -> None:
    """It gets the same explanation, and no other."""
    assert [one.row for one in explain(Evidence((TaskEvidence(text=ALSO[id_]),)))] == [id_]


MORE = (  # further ones: of a local device, of both replicas of a task, of tfds, and of a log from Windows
    ("device-not-there", "InvalidArgumentError: /job:localhost/replica:0/task:0/device:GPU:7 unknown device."),
    (
        "empty-share",
        "InvalidArgumentError: {{node replica_1/model/unstack}} Input shape axis 0 must equal 4, got shape [0,8]",
    ),
    ("one-file-sharded-by-file", "ValueError: Cannot shard the pipeline with given `input_context`. `num_shards` was"),
    ("old-distribute", "AttributeError: 'DistributedCallbackModel' object has no attribute '_compile_metrics'"),
)


@pytest.mark.parametrize(("id_", "text"), MORE)
def test_a_further_text_of_a_row(id_: str, text: str) -> None:
    """It gets the same explanation, and no other."""
    assert [one.row for one in explain(Evidence((TaskEvidence(text=text),)))] == [id_]


NEAR = {  # what looks like a row's text, and is something else
    "another number of columns": "ValueError: is incompatible with the layer: expected "
    "shape=(8, 20), found shape=(8, 2)",
    "another shape": "ValueError: is incompatible with the layer: expected shape=(8, 20), found shape=(4, 2)",
    "a method of a library": '  File "/home/u/train.py", line 9, in <module>\n    data.map(f)\n'
    "AttributeError: 'DistributedFrame' object has no attribute 'map'",
    "a reduction of one's own": "AttributeError: module 'losses' has no attribute 'Reduction'",
    "absl.app.run": '  File "/home/u/train.py", line 9, in <module>\n    app.run(main)\n'
    "TypeError: main() takes 0 positional arguments but 1 was given",
    "a dataset's call": '  File "/home/u/train.py", line 9, in <module>\n    data()\n'
    "TypeError: '_BatchDataset' object is not callable",
    "a key": '  File "/home/u/train.py", line 9, in <module>\n    boss = staff["chief"]\nKeyError: \'chief\'',
    "a text as a dictionary": '  File "/home/u/train.py", line 9, in <module>\n    row["name"]\n'
    "TypeError: string indices must be integers, not 'str'",
    "a dictionary in the environment": '  File "/home/u/train.py", line 9, in <module>\n    os.environ["A"] = {}\n'
    "TypeError: str expected, not dict",
    "a lock": '  File "/home/u/train.py", line 9, in <module>\n    with lock.hold:\n'
    "TypeError: 'method' object does not support the context manager protocol",
    "None as a path": '  File "/home/u/train.py", line 9, in <module>\n    os.stat(None)\n'
    "TypeError: stat: path should be string, bytes, os.PathLike or integer, not NoneType",
    "a data frame's values": '  File "/home/u/train.py", line 9, in <module>\n    frame.values[0]\n'
    "AttributeError: 'NoneType' object has no attribute 'values'",
    "a value that was not fed": "errors_impl.InvalidArgumentError: You must feed a value for "
    "placeholder tensor 'Placeholder' with dtype float",
    "a name that no version has": "AttributeError: module 'tensorflow' has no attribute 'sesion'",
    "a version of a file": "ValueError: version `B_2' not found (required by the report)",
    "a crash elsewhere": 'Fatal Python error: Segmentation fault\n  File "/home/u/train.py", line 9 in <module>',
    "a name that Keras never had": "AttributeError: module 'tensorflow.keras.layers' has no attribute 'Danse'",
    "a module of one's own": "ModuleNotFoundError: No module named 'keras_models.layers.experimental'",
    "an option": "AttributeError: Cannot set the property of the options",
    "options of one's own": "AttributeError: 'TrainOptions' object has no attribute 'auto_shard'",
    "an eager function": "RuntimeError: placeholder is eager, and that is not supported",
    "a connection": "ConnectionRefusedError: [Errno 111] Connection refused: failed to connect to the database",
    "a server that is not available": "requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: "
    "http://train/OS Error",
    "a key of a checkpoint": "KeyError: 'Key of the model not found in checkpoints.json'",
    "a sum": '  File "/home/u/train.py", line 9, in <module>\n    total = tf.add_n([a, b])\n'
    "InvalidArgumentError: Inputs to operation AddN of type AddN must have the same size and shape.  Input 0: [2] != "
    "input 1: [3]",
    "an object of one's own": "TypeError: 'UserObject' object is not callable",
    "a mismatch": "ValueError: Mismatched data types: int and str",
    "a variable": "KeyError: 'Could not find variable x in the configuration'",
    "a large tensor": "ValueError: the content is larger than 2GB",
    "an operation": "ValueError: Op type not registered: 'resize'",
    "a batch": "InvalidArgumentError: Input shape axis 0 must equal 4, got shape [0,8] [Op:Unpack]",
    "a device": "ValueError: the task was assigned to /device:GPU:0",
    "torch's nccl": "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1333, unhandled cuda "
    "error",
    "a name that NumPy never had": "AttributeError: module 'numpy' has no attribute 'flaot'",
    "a name of one's own": "NameError: name 'xranges' is not defined",
    "a file": "FileNotFoundError: libfoo.so: the shared object file cannot be opened",
    "a warning": "W dso_loader.cc:59] Could not load dynamic library 'libcudart.so.10.1'; dlerror: libcudart.so.10.1: "
    "cannot open shared object file: No such file or directory\nKeyError: 'a'",
    "a symbol of one's own": "OSError: ./mine.so: undefined symbol: my_function",
    "a step": "ValueError: No step set for the scheduler",
    "a seed": "TypeError: Expected int for argument 'seed' not 'tomorrow'",
    "a service with a state": "ValueError: Stateful sets are not yet supported with this strategy",
    "a resolver": "TypeError: Client.__init__() missing 1 required positional argument: 'cluster_resolver'",
    "a gradient of one's own": "TypeError: @tf.custom_gradient grad_fn must accept keyword argument 'variables', since "
    "function uses variables: [a]",
    "an assertion": "    assert executing\nAssertionError",
    "a sum in a loop": '    File "/home/u/train.py", line 5, in epoch  *\n        for batch in batches:\n'
    "    ValueError: 'total' has shape () before the loop, but shape (3,) after one iteration.",
    "a list": '  File "/home/u/train.py", line 9, in <module>\n    stack.pop()\nIndexError: pop from empty list',
    "a registry": "ValueError: Could not find callback with key=save in the registry.",
    "a placeholder": "RuntimeError: the placeholder is not supposed to be executed",
    "a scope": "ValueError: the name is out of scope and cannot be used",
}


@pytest.mark.parametrize("text", NEAR.values(), ids=NEAR)
def test_a_text_that_looks_like_a_rows(text: str) -> None:
    """It is not about a strategy, Keras or TF_CONFIG."""
    assert explain(Evidence((TaskEvidence(text=f"Traceback (most recent call last):\n{text}"),))) == []


def test_the_resolver_and_the_other_tasks_are_named_if_these_run_the_program() -> None:
    """With `--servers builtin`, only the coordinator creates the strategy."""
    missing = (TaskEvidence(text=ALSO["strategy-without-a-resolver"]),)
    options: dict[str, Any] = {"program": "train.py", "workers": 2, "ps": 1}
    (everywhere,) = explain(Evidence(missing, build_job(options, ProgramKind.SCRIPT)))
    assert "does not read TF_CONFIG" in everywhere.means
    assert "only the chief may create this strategy" in everywhere.means
    assert "TFConfigClusterResolver()" in everywhere.advice
    assert "--servers builtin" in everywhere.advice
    (alone,) = explain(Evidence(missing, build_job({**options, "servers": "builtin"}, ProgramKind.SCRIPT)))
    assert "only the chief" not in alone.means
    assert "--servers" not in alone.advice


def test_a_model_outside_the_scope_is_told_from_a_loop_of_ones_own() -> None:
    """The message is the same: in fit, the model was created outside the scope."""
    in_fit, in_a_loop = (RECORDED[id_] for id_ in ("only-compiled-in-the-scope", "optimizer-built-outside-the-scope"))
    assert in_fit.rpartition(" at 0x")[0].splitlines()[-1] == in_a_loop.rpartition(" at 0x")[0].splitlines()[-1]
    rows = [[one.row for one in explain(Evidence((TaskEvidence(text=text),)))] for text in (in_fit, in_a_loop)]
    assert rows == [["only-compiled-in-the-scope"], ["optimizer-built-outside-the-scope"]]


def test_a_file_of_records_that_ends_too_early_is_no_checkpoint() -> None:
    """Both read fewer bytes than they want."""
    (explanation,) = explain(Evidence((TaskEvidence(text=RECORDED["truncated-records"]),)))
    assert explanation.row == "truncated-records"


def test_an_input_in_a_loss_is_told_from_one_in_a_model() -> None:
    """In the loss, no function of Keras helps. The fit of an own class, which makes a model, is no step."""
    text = RECORDED["input-in-a-loss"]
    _, _, frame_of_keras, *_ = text.split("  File ")
    own_fit = text.replace(f"  File {frame_of_keras}", "").replace("model.fit(", "trials.fit(")
    in_run = text.replace("model.fit(", "strategy.run(")
    found = [[one.row for one in explain(Evidence((TaskEvidence(text=each),)))] for each in (own_fit, text, in_run)]
    assert found == [["keras-tensor"], ["input-in-a-loss"], ["input-in-a-loss"]]
