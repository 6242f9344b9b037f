"""Which environment variables are in the way of a cluster on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clusterkit.words.doctor import Facts, Finding, Grade, Topic

LEGACY_KERAS = "TF_USE_LEGACY_KERAS"
YES = ("true", "True", "1")  # what TensorFlow takes for it
NOISY = ("PYTHONVERBOSE", "PYTHONPROFILEIMPORTTIME", "GRPC_TRACE", "GRPC_VERBOSITY")

# A variable, and what it does to tasks that a plain look at the program does not tell.
SAID = {
    "PYTHONHOME": "is for one interpreter, and any other that a task starts does not find its library. Unset it.",
    "PYTHONINSPECT": "makes Python end with exit code 1, or 0, whatever the program's was, so that a task that asks "
    "to be started again (42) is not told from one that failed. Unset it.",
    "PYTHONSAFEPATH": "keeps Python from importing what lies beside the program. Unset it if the program needs that.",
    "PYTHONMALLOC": "changes how Python takes memory, and may make tasks several times slower. Unset it.",
}
ASKED_FOR = ("PYTHONSAFEPATH",)  # what somebody may well mean


def judge(facts: Facts) -> Iterator[Finding]:
    """What there is to say of the environment; one line where it is in nobody's way."""
    found = [*_tensorflow(facts.env), *_keras(facts), *_python(facts.env), *_own(facts.env)]
    if all(finding.grade is Grade.NOTE for finding in found):
        yield _finding("environment", Grade.FINE, "No variable is in the way.")
    yield from found


def wants_legacy_keras(facts: Facts) -> bool:
    """Whether `tf.keras` is to be Keras 2 in the tasks."""
    if facts.job is not None and facts.job.keras is not None:
        return facts.job.keras == 2
    return facts.env.get(LEGACY_KERAS) in YES


def _finding(name: str, grade: Grade, text: str) -> Finding:
    return Finding(Topic.ENVIRONMENT, name, grade, text)


def _tensorflow(env: Mapping[str, str]) -> Iterator[Finding]:
    if "TF_CONFIG" in env:
        text = "TF_CONFIG is set. It is ignored: every task gets its own. Unset it, for `python` without clusterkit."
        yield _finding("tf-config", Grade.DOUBT, text)
    if (level := env.get("TF_CPP_MIN_LOG_LEVEL", "")).isdecimal() and int(level) >= 2:
        text = f"TF_CPP_MIN_LOG_LEVEL={level} hides what TensorFlow says when it fails. Unset it to see why tasks end."
        yield _finding("silenced", Grade.DOUBT, text)


def _keras(facts: Facts) -> Iterator[Finding]:
    value = facts.env.get(LEGACY_KERAS)
    if value not in (None, "", "0", "false", "False", *YES):
        text = f"{LEGACY_KERAS}={value} means nothing to TensorFlow, and tf.keras is Keras 3. Set it to 1."
        yield _finding("legacy-keras", Grade.DOUBT, text)
    place = "KERAS_BACKEND" if "KERAS_BACKEND" in facts.env else "keras.json"
    backend = facts.env.get("KERAS_BACKEND") or facts.keras_backend
    if backend not in (None, "", "tensorflow") and not wants_legacy_keras(facts):
        text = f"{place} has Keras use {backend}, and tf.distribute trains no model of that. Set it to tensorflow."
        yield _finding("keras-backend", Grade.WRONG, text)


def _python(env: Mapping[str, str]) -> Iterator[Finding]:
    for name, text in SAID.items():
        if env.get(name):
            grade = Grade.NOTE if name in ASKED_FOR else Grade.DOUBT
            yield _finding(name.lower(), grade, f"{name} is set: it {text}")
    noisy = [name for name in NOISY if env.get(name)]
    if noisy:
        text = f"{' and '.join(noisy)} fill the logs of every task. Unset them, unless that is meant."
        yield _finding("noise", Grade.DOUBT, text)


def _own(env: Mapping[str, str]) -> Iterator[Finding]:
    options = sorted(name for name in env if name.startswith("CLUSTERKIT_UP_"))
    if options:
        yield _finding("defaults", Grade.NOTE, f"{', '.join(options)}: each `up` takes that as its option.")
    if env.get("CLUSTERKIT_TASK"):
        text = f"This is inside the task {env['CLUSTERKIT_TASK']} of the run {env.get('CLUSTERKIT_RUN_ID', '?')}: a run"
        yield _finding("inside", Grade.DOUBT, f"{text} that begins here ends with it. Begin it outside.")
