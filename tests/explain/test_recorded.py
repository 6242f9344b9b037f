"""What TensorFlow, Keras and others said in the programs of mistakes, recorded: each text is explained by its row.

The fixture holds the error of each program of tests/children/mistakes, shortened, below the id of its row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clusterkit.explain import addresses, checkpoints, data, environment, keras, loops, migration, replicas, servers
from clusterkit.explain.matching import explain
from clusterkit.explain.row import Evidence, Row, TaskEvidence
from clusterkit.words.model import ProgramKind
from tests.histories import build_job

_ROOMS = (addresses, servers, keras, migration, data, checkpoints, environment, loops, replicas)
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


ALSO = {  # other texts of a row: of other versions, or from a log without a traceback
    "slot-variable-of-another-scope": "ValueError: `colocate_vars_with` must only be passed a variable created in this "
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
}


@pytest.mark.parametrize("id_", ALSO)
def test_another_text_of_a_row(id_: str) -> None:
    """It gets the same explanation, and no other."""
    assert [one.row for one in explain(Evidence((TaskEvidence(text=ALSO[id_]),)))] == [id_]


NEAR = {  # what looks like a row's text, and is something else
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
}


@pytest.mark.parametrize("text", NEAR.values(), ids=NEAR)
def test_a_text_that_looks_like_a_rows(text: str) -> None:
    """It is not about a strategy, Keras or TF_CONFIG."""
    assert explain(Evidence((TaskEvidence(text=f"Traceback (most recent call last):\n{text}"),))) == []


def test_a_file_of_records_that_ends_too_early_is_no_checkpoint() -> None:
    """Both read fewer bytes than they want."""
    (explanation,) = explain(Evidence((TaskEvidence(text=RECORDED["truncated-records"]),)))
    assert explanation.row == "truncated-records"
