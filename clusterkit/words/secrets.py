"""Hides a job's secrets in files and output: values of variables and of options such as --password, and URLs'."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar

from clusterkit.words.job import JobSpec

HIDDEN = "***"
T = TypeVar("T")
# Variables whose values may be shown. Others are hidden, since no list of the names of secrets is complete.
_HARMLESS = re.compile(
    r"(TF|TF2|TFDS|XLA|KERAS|JAX|CUDA|CUDNN|NCCL|NVIDIA|HIP|ROCR|TPU"
    r"|OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|VECLIB|NUMEXPR|MALLOC|CLUSTERKIT)_.*"
    r"|GRPC_(VERBOSITY|TRACE|ENABLE_FORK_SUPPORT|POLL_STRATEGY)|LD_(LIBRARY_PATH|PRELOAD|DEBUG)|PYTHON[A-Z]*"
    r"|PATH|HOME|USER|LOGNAME|SHELL|PWD|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|TMPDIR|TMP|TEMP|DISPLAY"
    r"|XDG_[A-Z]+_(HOME|DIR|DIRS)|VIRTUAL_ENV|CONDA_PREFIX|CONDA_DEFAULT_ENV|NO_COLOR|FORCE_COLOR|CI"
)
_SUSPECT = r"TOKEN|SECRET|PASS|PWD|KEY|CRED|PRIVATE|CERT|AUTH|SIG|COOKIE|JWT|SESSION|(?:^|_)PW(?:_|$)"
_SUSPECT_NAME = re.compile(f"{_SUSPECT}|_VAR_", re.IGNORECASE)
# Matches a URL's `user@` or `user:password@` up to the last `@`, since the password may contain any character.
_USER = re.compile(r"(://)(?:[^\s/?#:@]*:(?![0-9]*(?:[/?#\s]|$))\S{0,1000}|[^\s/?#]*)@")
_PARAMETER = re.compile(rf"([?&;#][^=&;#\s]{{0,100}}(?:{_SUSPECT}|CODE)[^=&;#\s]{{0,100}}=)[^&;#\s]+", re.IGNORECASE)
_WEBHOOK = re.compile(r"(https?://(?=\S{0,1000}hook|api\.telegram\.org/)[^\s/?#]+/)[^\s'\"]+", re.IGNORECASE)


# Names of options whose value is a secret: `--password`, `--hf-token`, `--wandb-api-key`, `db.secret`. Why fewer words
# than for variables: `--sigma`, `--tokenizer` and `--key-size` are hyperparameters, which reports have to show.
_SECRET_OPTION = re.compile(
    r"-{0,2}(?:[\w.-]*[-_.])?(?:password|passwd|passphrase|pwd|secret|token|credentials?|jwt|cookie|authorization|bearer"
    r"|(?:api|access|secret|private|auth|encryption|signing)[-_]?key)",
    re.IGNORECASE,
)
# Tokens of a language model's vocabulary.
_VOCABULARY = re.compile(r".*(?:eos|bos|pad|unk|oov|sep|cls|mask|special|start|end|stop|image|control)[-_]token", re.I)


def is_harmless(name: str) -> bool:
    """Return whether the value of a variable with this name may be shown."""
    return _HARMLESS.fullmatch(name) is not None and (name == "PWD" or _SUSPECT_NAME.search(name) is None)


def is_pasteable(name: str, value: str) -> bool:
    """Return whether a variable may be part of a command that is shown to the user who has typed its value.

    It may unless its name looks like that of a secret, or its value contains credentials.
    """
    return _SUSPECT_NAME.search(name) is None and without_credentials(value) == value


def without_credentials(text: str) -> str:
    """Return the text without passwords, secret parameters and webhook paths in its URLs."""
    if "://" not in text:
        return text
    text = _WEBHOOK.sub(rf"\1{HIDDEN}", _USER.sub(rf"\1{HIDDEN}@", text))
    return _PARAMETER.sub(rf"\1{HIDDEN}", text)


def without_secret_arguments(args: Sequence[str]) -> tuple[str, ...]:
    """Return a program's arguments without the values of options such as `--password X` and `--api-key=X`."""
    shown = list[str]()
    is_secret = False  # True if the word before is an option with a secret
    for word in args:
        name, equals, value = word.partition("=")
        if is_secret and not word.startswith("-"):
            shown.append(HIDDEN)
            is_secret = False
            continue
        names_secret = _SECRET_OPTION.fullmatch(name) is not None and _VOCABULARY.fullmatch(name) is None
        shown.append(f"{name}={HIDDEN}" if names_secret and value else word)
        is_secret = names_secret and not equals and word.startswith("-")
    return tuple(shown)


def masked(env: Mapping[str, str], show: bool = False) -> dict[str, str]:
    """Return the variables with secret values replaced by HIDDEN. With `show`, hide only the credentials in URLs."""
    return {name: without_credentials(value) if show or is_harmless(name) else HIDDEN for name, value in env.items()}


def hidden_in(env: Mapping[str, str], show: bool) -> list[str]:
    """Return the names of the variables whose values `masked` changes."""
    return [name for name, text in masked(env, show).items() if text != env[name]]


def has_credentials(job: JobSpec) -> bool:
    """Return whether a URL in the job contains credentials. URLs in environment variables are ignored."""
    bare = replace(job, setup=replace(job.setup, env={}), setups={k: replace(s, env={}) for k, s in job.setups.items()})
    return _cleaned(bare, False) != bare


def without_secrets(job: JobSpec) -> JobSpec:
    """Return a copy of the job without secrets, for files and output. Tasks are never started from this copy."""
    setups = {kind: replace(setup, env=masked(setup.env, job.show_env)) for kind, setup in job.setups.items()}
    setup = replace(job.setup, env=masked(job.setup.env, job.show_env))
    return _cleaned(replace(job, setup=setup, setups=setups))


def _cleaned(value: T, arguments: bool = True) -> T:
    """Return a value without credentials and, with `arguments`, without the secrets in lists of arguments."""
    cleaned: object = value
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        cleaned = without_credentials(value)
    elif isinstance(value, tuple) and not hasattr(value, "_fields"):
        cleaned = tuple(_cleaned(one, arguments) for one in value)
        if arguments and all(isinstance(one, str) and not isinstance(one, enum.Enum) for one in value):
            cleaned = without_secret_arguments(cleaned)
    elif isinstance(value, Mapping):
        cleaned = {key: _cleaned(one, arguments) for key, one in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        old = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        new = {name: _cleaned(one, arguments) for name, one in old.items()}
        cleaned = replace(value, **{name: one for name, one in new.items() if one != old[name]})
    return cleaned  # type: ignore[return-value]
