"""The text that `clusterkit manifests` prints or writes, with a new key in it."""

from __future__ import annotations

import datetime
import os
import stat

from clusterkit.backends.link.certificate import make_certificate
from clusterkit.engines.kubernetes.documents import documents, head, secrets_in
from clusterkit.engines.kubernetes.manifest import Manifest, Place, Secret
from clusterkit.engines.kubernetes.objects import key_secret
from clusterkit.engines.kubernetes.text import yaml_text
from clusterkit.text.spelling import listed
from clusterkit.words.errors import BadJob, ClusterkitError


class CannotWrite(ClusterkitError):
    """The file can't be written."""

    exit_code = 2


def manifest_text(manifest: Manifest, seen: bool) -> str:
    """Every document of a run. Raises BadJob if there is a secret in them, and they would be `seen` on a screen."""
    if seen and (found := secrets_in(manifest)):
        raise BadJob([_unseen(listed(found))])
    has_key = manifest.flags.secret is Secret.TOO
    return yaml_text(head(manifest), documents(manifest, _new_key(manifest.name) if has_key else ""))


def key_text(place: Place, seen: bool) -> str:
    """The Secret of a run's key alone. Raises BadJob if it would be `seen`."""
    if seen:
        raise BadJob([_unseen("the run's key")])
    return yaml_text(
        ["SECRET: the run's key. Keep it readable for you alone."], [key_secret(place, _new_key(place.run))]
    )


def write_private(path: str, text: str) -> None:
    """Write a file that only its owner can read, also if it was there before. Raises CannotWrite."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # and not /dev/null, say
                os.fchmod(file.fileno(), 0o600)
            file.write(text)
    except OSError as error:
        raise CannotWrite(f"{path} can't be written: {error.strerror}.") from None


def _new_key(run: str) -> str:
    return make_certificate(run, datetime.datetime.now(datetime.UTC)).decode("ascii")


def _unseen(what: str) -> str:
    return f"{what[0].upper()}{what[1:]} would be shown on this terminal. Write it to a file with -o FILE, or pipe it."
