"""Each finding of the check: a program that has it, at the line that has it, and ones like it that have not."""

from __future__ import annotations

from typing import Any

import pytest

from clusterkit.check.case import HidingFile
from clusterkit.check.rules.all_rules import RULES
from tests.check.checks import findings, line_of, told
from tests.check.clusters import CLUSTERS
from tests.check.interrupted import INTERRUPTED
from tests.check.loops import LOOPS
from tests.check.programs import MADE, ONE, PROGRAMS, TF, TWO, Row
from tests.check.rebound import REBOUND
from tests.check.shares import SHARES
from tests.check.shuffled import SHUFFLED
from tests.check.steps import STEPS

# The rules that find something only after a failure.
AFTER = {"devices-not-there", "cluster-too-small", "replica-id-as-an-index", "collectives-without-a-leader"}
ROWS = [*PROGRAMS, *CLUSTERS, *SHUFFLED, *STEPS, *SHARES, *LOOPS, *REBOUND, *INTERRUPTED]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.finding)
def test_each_rule_finds_its_program(row: Row) -> None:
    """There is exactly one finding, at the right line: an error if every run fails there, else a warning."""
    (found,) = findings(row.text, **row.job)
    assert (found.id, found.severity) == (row.finding, row.severity)
    assert (found.location.file, found.location.line) == ("main.py", line_of(row.text))
    assert found.what.endswith(".")
    assert found.advice.endswith(".")


@pytest.mark.parametrize(
    ("row", "change"), [(row, change) for row in ROWS for change in row.without], ids=lambda value: str(value)[:60]
)
def test_a_small_change_removes_the_finding(row: Row, change: tuple[str, str]) -> None:
    """The changed program has no finding."""
    assert change[0] in row.text
    assert row.finding not in told(row.text.replace(*change), **row.job)


@pytest.mark.parametrize(
    ("row", "job"), [(row, job) for row in ROWS for job in row.other_jobs], ids=lambda value: str(value)[:60]
)
def test_another_job_has_no_finding(row: Row, job: dict[str, Any]) -> None:
    """The finding depends on the job too."""
    assert row.finding not in told(row.text, **job)


def test_a_file_that_hides_a_module_is_a_finding() -> None:
    """It does not depend on the program's text."""
    hides = (HidingFile("lib/random.py", "random", "Python's own module"),)
    (found,) = findings(TF, hides=hides)
    assert (found.id, str(found.location)) == ("hides-module", "lib/random.py:1")
    assert "This file hides Python's own module random from everything" in found.what
    assert findings(TF) == []


MISSING = {"missing-module", "missing-name"}  # see test_missing.py


def test_each_rule_has_a_row() -> None:
    """A new rule needs a row in the table above."""
    assert set(RULES) == {row.finding for row in ROWS} | AFTER | {"hides-module", "undefined-name"} | MISSING


ALIASES = {
    "as people write it": "import tensorflow as tf\ntf.zeros(1)\ns = tf.distribute.MultiWorkerMirroredStrategy()",
    "its whole name": "import tensorflow\ntensorflow.zeros(1)\ntensorflow.distribute.MultiWorkerMirroredStrategy()",
    "from": "from tensorflow import distribute as d, zeros\nzeros(1)\nd.MultiWorkerMirroredStrategy()",
    "the name alone": (
        "import tensorflow as tf\nfrom tensorflow.distribute import MultiWorkerMirroredStrategy as M\ntf.zeros(1)\nM()"
    ),
    "experimental": "import tensorflow as tf\ntf.zeros(1)\ntf.distribute.experimental.MultiWorkerMirroredStrategy()",
    "compat": "import tensorflow.compat.v2 as tf\ntf.zeros(1)\ntf.distribute.MultiWorkerMirroredStrategy()",
    "a variable": "import tensorflow as tf\nd = tf.distribute\nm = d.MultiWorkerMirroredStrategy\ntf.zeros(1)\nm()",
    "Keras of its own": f"import tensorflow as tf\nfrom tensorflow import keras\nkeras.optimizers.Adam()\n{MADE}",
    "Keras alone": f"import keras\nimport tensorflow as tf\nkeras.metrics.Mean()\n{MADE}",
    "clusterkit's": "import tensorflow as tf\nfrom clusterkit import training\ntf.zeros(1)\ntraining.strategy()",
    "imported twice": f"import tensorflow as tf\ndef f():\n    import tensorflow as tf\ntf.zeros(1)\n{MADE}",
}


@pytest.mark.parametrize("text", ALIASES.values(), ids=ALIASES)
def test_all_import_styles_are_known(text: str) -> None:
    """A function is recognized however it was imported."""
    assert told(text, **TWO) == ["strategy-too-late"]


MODULES = {
    "an import": ("import model\n", ["strategy-too-late"]),
    "from": ("from model import x\n", ["strategy-too-late"]),
    "in a branch": ("import sys\nif len(sys.argv) > 1:\n    import model\n", []),
    "in a try": ("try:\n    import model\nexcept ImportError: pass\n", []),
    "behind an exit": ("import sys\nif len(sys.argv) > 1: sys.exit()\nimport model\n", []),
}


@pytest.mark.parametrize(("text", "expected"), MODULES.values(), ids=MODULES)
def test_the_programs_own_modules_are_read(text: str, expected: list[str]) -> None:
    """Only modules that the program always imports are checked."""
    late = f"import tensorflow as tf\ntf.zeros(1)\n{MADE}\n"
    assert told(text, files={"model.py": late}, **TWO) == expected


@pytest.mark.parametrize("devices", ["['GPU:0', 'GPU:1']", "[f'/gpu:{i}' for i in range(2)]", "devices=NAMES"])
def test_gpus_of_a_strategy_are_found_only_after_a_failure(devices: str) -> None:
    """A machine may have them. Devices of another kind, and a strategy without a list, are no reason of a failure."""
    text = f"{TF}NAMES = ('/gpu:0', '/gpu:1')\nstrategy = tf.distribute.MirroredStrategy({devices})\nstrategy.scope()\n"
    assert told(text, workers=1) == []
    assert told(text, strict=False, workers=1) == ["devices-not-there"]
    text = text.replace("gpu:", "cpu:").replace("GPU:", "CPU:")
    assert told(text, strict=False, workers=1) == []


CLUSTER = f"{TF}HOSTS = ['a:1', 'b:1']\nPS = 1\ntf.train.ClusterSpec({{'ps': HOSTS[:PS], 'worker': HOSTS[PS:]}})\n"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (CLUSTER, 1),
        (CLUSTER.replace("tensorflow", "tensorflow.compat.v1"), 1),
        (CLUSTER.replace("'b:1'", "'b:1', 'c:1', 'd:1'"), 0),
        (CLUSTER.replace("'b:1'", "*more"), 0),
        (CLUSTER.replace("PS = 1", "PS = count()"), 0),
    ],
)
def test_a_cluster_with_too_few_addresses_is_found_only_after_a_failure(text: str, count: int) -> None:
    """Its tasks may be others than those of the job."""
    job: dict[str, Any] = {"chief": True, "workers": 2, "ps": 1}
    assert told(text, **job) == []
    found = [each for each in findings(text, strict=False, **job) if each.id == "cluster-too-small"]
    assert [each.word for each in found] == ["worker"] * count
    assert all("only 1 address for tasks of type worker" in each.what for each in found)


@pytest.mark.parametrize(
    ("index", "ids"),
    [
        ("tf.distribute.get_replica_context().replica_id_in_sync_group", ["replica-id-as-an-index"]),
        (
            "tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)",
            ["replica-id-as-an-index"],
        ),
        ("tf.distribute.get_replica_context().replica_id_in_sync_group % 2", []),
        ("0", []),
    ],
)
def test_an_id_of_a_replica_is_found_only_after_a_failure(index: str, ids: list[str]) -> None:
    """A list may have an element for each replica of all workers."""
    text = f"{TF}strategy = {MADE}\nrows = []\ndef step():\n    i = {index}\n    rows[i] += 1\n"
    assert told(text, **TWO) == []
    assert [id_ for id_ in told(text, strict=False, **TWO) if id_ == "replica-id-as-an-index"] == ids
    for other, job in ((text.replace("[i]", "[i % 2]"), TWO), (text, ONE)):
        assert "replica-id-as-an-index" not in told(other, strict=False, **job)


def test_collectives_without_a_leader_are_found_only_after_a_failure() -> None:
    """A strategy names a leader by itself."""
    text = (
        f"{TF}from tensorflow.python.ops import collective_ops\ncollective_ops.all_reduce(x, 2, 4, 11, 'Add', 'Id')\n"
    )
    assert told(text, **TWO) == []
    for changed, job, count in (
        (text, TWO, 1),
        (f"{text}config.experimental.collective_group_leader = leader\n", TWO, 0),
        (text, ONE, 0),
    ):
        assert told(changed, strict=False, **job).count("collectives-without-a-leader") == count


def test_processes_for_the_data_are_found_only_after_a_failure() -> None:
    """With most programs, they do no harm."""
    text = f"{TF}model.fit(data, workers=4, use_multiprocessing=True)\n"
    assert told(text, workers=1) == []
    assert told(text, strict=False, workers=1) == ["forks"]
    assert told(text.replace("=True", "=False"), strict=False, workers=1) == []


def test_unreached_code_is_checked_after_a_failure() -> None:
    """It includes branches, methods, and an initialization that the check can't see."""
    branch = f"import tensorflow as tf, sys, data\nif sys.argv:\n    x = tf.zeros(1)\n    s = {MADE}\n"
    method = (
        f"import tensorflow as tf, data\nclass T:\n    def run(self):\n        return {MADE}\ndata.load()\nT().run()\n"
    )
    for text in (branch, method):
        assert told(text, **TWO) == []
        assert told(text, strict=False, **TWO) == ["strategy-too-late"]


@pytest.mark.parametrize("text", ["x = " + "(" * 90 + "1" + ")" * 90, "f" + ".a" * 900, "f(" * 90 + ")" * 90])
def test_a_text_that_nests_deeply_is_read(text: str) -> None:
    """It has no finding."""
    assert told(f"import tensorflow as tf\n{text}\n", **TWO) == []


def test_circular_names_end() -> None:
    """Circular names end the search, and a function with very many callers is evaluated once."""
    calls = "".join(f"def f{n}():\n    f{n + 1}()\n    f{n + 1}()\n" for n in range(60))
    assert told(f"import tensorflow as tf\na = b\nb = a\na.zeros(1)\n{calls}def f60():\n    {MADE}\n", **TWO) == []


def test_recursive_functions_end() -> None:
    """Functions that only call each other count as not called."""
    text = f"import tensorflow as tf\ndef a():\n    tf.zeros(1)\n    {MADE}\n    b()\ndef b():\n    a()\n"
    assert told(text, **TWO) == []
    assert told(text + "b()\n", **TWO) == ["strategy-too-late"]
