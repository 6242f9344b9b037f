"""Ordinary programs that are correct in their jobs: the check has nothing to say of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.check.checks import told
from tests.check.look_alikes import PROGRAMS as LOOK_ALIKES

GANG: dict[str, Any] = {"workers": 2}
PS: dict[str, Any] = {"workers": 2, "ps": 1}
BUILTIN: dict[str, Any] = {**PS, "servers": "builtin"}
ONE: dict[str, Any] = {"workers": 1}
TF = "import json, os, sys\nimport tensorflow as tf\n"
MWMS = "tf.distribute.MultiWorkerMirroredStrategy()"
PSS = "tf.distribute.ParameterServerStrategy(resolver)"
RESOLVER = "resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()\n"
FIXED = "json.dumps({'cluster': {'worker': ['localhost:1234']}, 'task': {'type': 'worker', 'index': 0}})"
SERVE = (
    "if resolver.task_type in ('worker', 'ps'):\n"
    "    server = tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type)\n"
    "    server.join()\n"
)
FIT = (
    "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile('sgd', 'mse')\nmodel.fit(x, y, epochs=2)\n"
)

PROGRAMS: dict[str, tuple[dict[str, Any], str]] = {
    # Names that are bound in more than one way.
    "a strategy by if and else": (
        GANG,
        f"{TF}if len(json.loads(os.environ['TF_CONFIG'])['cluster']['worker']) > 1:\n    strategy = {MWMS}\n"
        "else:\n    strategy = tf.distribute.MirroredStrategy()\nx = tf.zeros(1)\n",
    ),
    "a strategy by a conditional expression": (
        PS,
        f"{TF}{RESOLVER}{SERVE}strategy = {PSS} if resolver.cluster_spec().as_dict().get('ps') else {MWMS}\n",
    ),
    "a strategy in try": (
        GANG,
        f"{TF}x = tf.zeros(1)\ntry:\n    strategy = {MWMS}\nexcept RuntimeError:\n"
        f"    strategy = tf.distribute.get_strategy()\n",
    ),
    "Keras from one of two places": (
        GANG,
        f"{TF}try:\n    import tf_keras as keras\nexcept ImportError:\n    from tensorflow import keras\n"
        f"optimizer = keras.optimizers.Adam()\nstrategy = {MWMS}\n",
    ),
    "a module that may stand for TensorFlow": (
        GANG,
        "try:\n    import tensorflow as tf\nexcept ImportError:\n    import numpy as tf\n"
        f"x = tf.zeros(3)\nstrategy = {MWMS}\n",
    ),
    "a class by platform": (
        PS,
        f"{TF}S = tf.distribute.MultiWorkerMirroredStrategy\nif 'ps' in os.environ['TF_CONFIG']:\n"
        f"    S = tf.distribute.ParameterServerStrategy\n{RESOLVER}{SERVE}strategy = S(resolver)\n",
    ),
    "a name that a parameter has too": (
        GANG,
        f"import tensorflow as tf\nimport fake\ndef late(tf):\n    tf.zeros(1)\n    return {MWMS}\nlate(fake)\n",
    ),
    "a loop over strategies": (
        GANG,
        f"{TF}x = tf.zeros(1)\nfor make in (tf.distribute.MultiWorkerMirroredStrategy, tf.distribute.get_strategy):\n"
        "    try:\n        strategy = make()\n        break\n    except RuntimeError: pass\n",
    ),
    # Early returns and other ways out.
    "a return for one worker": (
        GANG,
        f"{TF}def main():\n    x = tf.zeros(1)\n    if len(sys.argv) > 1:\n        return single()\n"
        f"    strategy = {MWMS}\nmain()\n",
    ),
    "exit of the servers": (
        PS,
        f"{TF}{RESOLVER}if resolver.task_type == 'ps':\n    serve_forever()\n    sys.exit()\nstrategy = {MWMS}\n",
    ),
    "a return where TF_CONFIG is there": (
        GANG,
        f"{TF}def set_up():\n    if 'TF_CONFIG' in os.environ:\n        return\n    os.environ['TF_CONFIG'] = {FIXED}\n"
        f"set_up()\nstrategy = {MWMS}\n",
    ),
    "a server's function that never returns": (
        PS,
        f"{TF}{RESOLVER}def serve_if_asked():\n    if resolver.task_type != 'chief':\n"
        "        tf.distribute.Server(resolver.cluster_spec()).join()\n"
        f"def main():\n    serve_if_asked()\n    strategy = {MWMS}\nmain()\n",
    ),
    "a raise": (
        {"workers": 2},
        f"{TF}{RESOLVER}def main():\n    if not resolver.cluster_spec().num_tasks('ps'):\n"
        f"        raise SystemExit('no ps')\n"
        f"    strategy = {PSS}\nmain()\n",
    ),
    "an assertion's else": (
        {"workers": 2},
        f"{TF}{RESOLVER}def coordinate():\n    return {PSS}\ndef train():\n    return {MWMS}\n"
        "(coordinate if resolver.cluster_spec().as_dict().get('ps') else train)()\n",
    ),
    "a worker that quits a loop": (
        GANG,
        f"{TF}while True:\n    if os.path.exists('go'): break\nstrategy = {MWMS}\n",
    ),
    # Generators, coroutines, callbacks, decorators.
    "a generator called": (
        GANG,
        f"{TF}def batches():\n    os.environ['TF_CONFIG'] = {FIXED}\n    yield 1\ndata = batches()\n"
        f"strategy = {MWMS}\n",
    ),
    "a generator of tensors": (
        GANG,
        f"{TF}def batches():\n    yield tf.zeros(1)\ndata = batches()\nstrategy = {MWMS}\n",
    ),
    "a lambda": (GANG, f"{TF}make = lambda: tf.zeros(1)\nstrategy = {MWMS}\n"),
    "a comprehension over nothing": (GANG, f"{TF}xs = [tf.constant(x) for x in sys.argv[9:]]\nstrategy = {MWMS}\n"),
    "a coroutine": (GANG, f"{TF}async def local():\n    os.environ['TF_CONFIG'] = {FIXED}\nc = local()\nc.close()\n"),
    "a function that is never called": (
        GANG,
        f"{TF}def local():\n    os.environ['TF_CONFIG'] = {FIXED}\nstrategy = {MWMS}\n",
    ),
    "a function by a table": (
        GANG,
        f"{TF}{RESOLVER}def ps():\n    return {PSS}\ndef gang():\n    return {MWMS}\n"
        f"{{'ps': ps, 'gang': gang}}[sys.argv[1]]()\n",
    ),
    "a decorated function": (
        GANG,
        f"{TF}import decorators\n@decorators.only_alone\ndef set_up():\n    os.environ['TF_CONFIG'] = {FIXED}\n"
        f"set_up()\n",
    ),
    "a method that is not called": (
        GANG,
        f"{TF}class Local:\n    def set(self):\n        os.environ['TF_CONFIG'] = {FIXED}\nstrategy = {MWMS}\n",
    ),
    "tf.function": (GANG, f"{TF}@tf.function\ndef f():\n    return tf.zeros(1)\nstrategy = {MWMS}\nf()\n"),
    "absl's main": (GANG, f"{TF}from absl import app\ndef main(argv):\n    s = {MWMS}\n    x = tf.zeros(1)\n"
    f"app.run(main)\n"),
    # What swallows exceptions.
    "suppress": (
        GANG,
        f"{TF}import contextlib\nx = tf.zeros(1)\nwith contextlib.suppress(RuntimeError):\n    strategy = {MWMS}\n",
    ),
    "suppress around TF_CONFIG": (
        GANG,
        f"{TF}from contextlib import suppress\nwith suppress(KeyError):\n    c = os.environ['TF_CONFIG']\n"
        f"    raise KeyError\n"
        f"    os.environ['TF_CONFIG'] = {FIXED}\n",
    ),
    "a test's raises": (
        {"workers": 2},
        f"{TF}import pytest\n{RESOLVER}with pytest.raises(ValueError):\n    {PSS}\n",
    ),
    # Clusters of the program's own.
    "the tutorial's cluster in one process": (
        ONE,
        f"{TF}import portpicker\ndef cluster(n):\n    ports = [portpicker.pick_unused_port() for _ in range(n)]\n"
        "    spec = tf.train.ClusterSpec({'worker': [f'localhost:{p}' for p in ports]})\n"
        "    for i in range(n):\n        tf.distribute.Server(spec, job_name='worker', task_index=i)\n"
        "    return tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer='grpc')\n"
        "resolver = cluster(3)\n",
    ),
    "the tutorial's parameter servers in one process": (
        ONE,
        f"{TF}def cluster(spec):\n    for i in range(3):\n"
        "        tf.distribute.Server(spec, job_name='worker', task_index=i, protocol='grpc')\n"
        "        tf.distribute.Server(spec, job_name='ps', task_index=i, protocol='grpc')\n"
        f"    return tf.distribute.cluster_resolver.SimpleClusterResolver(spec)\n"
        f"resolver = cluster(ports())\nstrategy = {PSS}\n",
    ),
    "a Server of its own, by role": (PS, f"{TF}{RESOLVER}{SERVE}strategy = {PSS}\n"),
    "a ClusterSpec from TF_CONFIG": (
        PS,
        f"{TF}config = json.loads(os.environ['TF_CONFIG'])\nspec = tf.train.ClusterSpec(config['cluster'])\n"
        f"if config['task']['type'] != 'chief':\n    tf.distribute.Server(spec, config['task']['type']).join()\n"
        f"{RESOLVER}strategy = {PSS}\n",
    ),
    "clusterkit's server": (
        PS,
        f"{TF}from clusterkit import training\ntraining.serve()\n{RESOLVER}strategy = {PSS}\n",
    ),
    "the coordinator's code alone": (BUILTIN, f"{TF}{RESOLVER}strategy = {PSS}\n"),
    "a child process with a TF_CONFIG of its own": (
        GANG,
        f"{TF}import subprocess\nenv = {{**os.environ, 'TF_CONFIG': {FIXED}}}\nsubprocess.run(['true'], env=env)\n"
        f"strategy = {MWMS}\n",
    ),
    # Threads and devices.
    "threads from argparse": (
        GANG,
        f"{TF}import argparse\np = argparse.ArgumentParser()\np.add_argument('--threads', type=int, default=0)\n"
        f"a = p.parse_args()\nstrategy = {MWMS}\ntf.config.threading.set_intra_op_parallelism_threads(a.threads)\n",
    ),
    "threads first": (GANG, f"{TF}tf.config.threading.set_inter_op_parallelism_threads(2)\nstrategy = {MWMS}\n"),
    "memory growth": (
        GANG,
        f"{TF}for gpu in tf.config.list_physical_devices('GPU'):\n"
        f"    tf.config.experimental.set_memory_growth(gpu, True)\nstrategy = {MWMS}\n",
    ),
    # TF_CONFIG.
    "TF_CONFIG restored": (
        GANG,
        f"{TF}saved = os.environ.pop('TF_CONFIG')\nprepare()\nos.environ['TF_CONFIG'] = saved\nstrategy = {MWMS}\n",
    ),
    "TF_CONFIG replaced and restored": (
        GANG,
        f"{TF}saved = os.environ['TF_CONFIG']\nos.environ['TF_CONFIG'] = {FIXED}\nprepare()\n"
        f"os.environ['TF_CONFIG'] = saved\nstrategy = {MWMS}\n",
    ),
    "TF_CONFIG where it is missing": (
        GANG,
        f"{TF}if 'TF_CONFIG' not in os.environ:\n    os.environ['TF_CONFIG'] = {FIXED}\nstrategy = {MWMS}\n",
    ),
    "TF_CONFIG by setdefault": (GANG, f"{TF}os.environ.setdefault('TF_CONFIG', {FIXED})\nstrategy = {MWMS}\n"),
    "TF_CONFIG of the tutorial, with its index": (
        GANG,
        f"{TF}tf_config = {{'cluster': {{'worker': ['a:1', 'b:1']}}, 'task': {{'type': 'worker', 'index': 0}}}}\n"
        "tf_config['task']['index'] = int(sys.argv[1])\nos.environ['TF_CONFIG'] = json.dumps(tf_config)\n"
        f"strategy = {MWMS}\n",
    ),
    "TF_CONFIG with something added": (
        GANG,
        f"{TF}config = json.loads(os.environ['TF_CONFIG'])\nconfig['rpc_layer'] = 'grpc'\n"
        f"os.environ['TF_CONFIG'] = json.dumps(config)\nstrategy = {MWMS}\n",
    ),
    "TF_CONFIG for one task": (ONE, f"{TF}os.environ['TF_CONFIG'] = {FIXED}\nstrategy = {MWMS}\n"),
    "TF_CONFIG emptied": (GANG, f"{TF}resolve()\nos.environ['TF_CONFIG'] = '{{}}'\n"),
    "TF_CONFIG in a dictionary": (GANG, f"{TF}env = {{}}\nenv['TF_CONFIG'] = {FIXED}\nstrategy = {MWMS}\n"),
    # Where fit and tensors stand.
    "fit outside the scope": (GANG, f"{TF}strategy = {MWMS}\nwith strategy.scope():\n    model = build()\n"
    f"model.fit(x, epochs=2)\n"),
    "a chief that fits by itself": (PS, f"{TF}{RESOLVER}{SERVE}strategy = {PSS}\n{FIT}"),
    "fit without a strategy": (ONE, f"{TF}{FIT}"),
    "NumPy before the strategy": (GANG, f"{TF}import numpy as np\nx = np.zeros(3)\nstrategy = {MWMS}\n"),
    "seeds before the strategy": (GANG, f"{TF}tf.random.set_seed(1)\ntf.keras.utils.set_random_seed(1)\n"
    f"strategy = {MWMS}\n"),
    "schedules before the strategy": (
        GANG,
        f"{TF}rate = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)\nstrategy = {MWMS}\n",
    ),
    "an optimizer of Keras 2 before the strategy": ({**GANG, "keras": 2}, f"{TF}o = tf.keras.optimizers.SGD()\n"
    f"s = {MWMS}\n"),
    "a tensor in a function that is defined first": (
        GANG,
        f"{TF}def loss(y):\n    return tf.reduce_mean(y)\nstrategy = {MWMS}\nloss(1)\n",
    ),
    "a tensor in a branch": (GANG, f"{TF}if '--debug' in sys.argv:\n    print(tf.zeros(1))\nstrategy = {MWMS}\n"),
    "an early tensor for one worker": (ONE, f"{TF}x = tf.zeros(1)\nstrategy = {MWMS}\n"),
    "a strategy that is asked for by name": (
        GANG,
        f"{TF}from clusterkit import training\nx = tf.zeros(1)\nstrategy = training.strategy('mirrored')\n",
    ),
    # Strategies of one process, several tasks.
    "a Mirrored strategy by worker": (
        GANG,
        f"{TF}task_index = json.loads(os.environ['TF_CONFIG'])['task']['index']\n"
        f"s = tf.distribute.MirroredStrategy()\n",
    ),
    "Horovod": (GANG, f"{TF}import horovod.tensorflow as hvd\nhvd.init()\n"
    f"s = tf.distribute.OneDeviceStrategy('cpu:0')\n"),
    "a Mirrored strategy alone": (ONE, f"{TF}strategy = tf.distribute.MirroredStrategy()\n{FIT}"),
    # Saving.
    "each worker saves to a place of its own": (
        GANG,
        f"{TF}import tempfile\nstrategy = {MWMS}\nmodel = build()\n"
        f"model.save(os.path.join(tempfile.mkdtemp(), 'model.keras'))\n",
    ),
    "the chief saves": (
        GANG,
        f"{TF}{RESOLVER}strategy = {MWMS}\nmodel = build()\nif resolver.task_id == 0:\n    model.save('model.keras')\n",
    ),
    "others return before it is saved": (
        GANG,
        f"{TF}{RESOLVER}def main():\n    strategy = {MWMS}\n    model = build()\n    if resolver.task_id:\n"
        f"        return\n"
        "    model.save('model.keras')\nmain()\n",
    ),
    "a path from the command line": (GANG, f"{TF}strategy = {MWMS}\nbuild().save(sys.argv[1])\n"),
    "each worker has a directory of its own": (
        GANG,
        f"{TF}os.chdir(os.environ['CLUSTERKIT_TASK'])\nstrategy = {MWMS}\nbuild().save('model.keras')\n",
    ),
    "a picture is saved": (GANG, f"{TF}strategy = {MWMS}\nfigure.save('loss.png')\n"),
    "clusterkit's backup": (
        GANG,
        f"{TF}from clusterkit import training\nstrategy = training.strategy()\n"
        f"model.fit(x, callbacks=[training.Backup()])\n",
    ),
    "no TensorFlow": (GANG, "import random\nprint(random.random())\n"),
}  # fmt: skip


@pytest.mark.parametrize(("job", "text"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_correct_program_has_no_finding(job: dict[str, Any], text: str) -> None:
    """A false warning is worse than none."""
    assert told(text, **job) == []


@pytest.mark.parametrize("patches", [True, False])
@pytest.mark.parametrize("text", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
def test_what_only_looks_like_a_mistake_is_none(text: str, patches: bool) -> None:
    """With and without the patches of Keras."""
    assert told(text, patches=patches, **GANG) == []


def test_a_docstring_is_no_code_for_tasks() -> None:
    """Its words do not say that the program knows its task; nor do words that contain others."""
    fit = "import tensorflow as tf\n" + FIT
    for more in ('"""Ranks images: a task for one process."""\n', "x = tf.RaggedTensor\n", "multitask = 1\n"):
        assert told(more + fit if more[0] == '"' else fit + more, workers=2) == ["no-strategy"]
    for more in ("task_id = 1\n", "rank = 0\n", "local_rank = 0\n", "import jax\n", "x = {'task': 1}\n"):
        assert told(fit + more, workers=2) == []
