"""Writes documents as YAML that every parser reads as what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from clusterkit.engines.kubernetes.manifest import Document
from clusterkit.words.errors import ClusterkitError

if TYPE_CHECKING:
    from yaml import SafeDumper
    from yaml.nodes import ScalarNode

# Strings that need no quotes. Parsers differ in what else they take as a number, a date or a truth value: 1e3, 012,
# 0o17, y, NO, 12:30:00. What is not clearly a word is quoted.
_WORD = re.compile(r"[A-Za-z/][A-Za-z0-9._/-]*")
_NO_WORDS = re.compile("y|n|yes|no|on|off|true|false|null|nan|inf", re.IGNORECASE)
# Several lines that are shown as they are: the key, the job file.
_LINES = re.compile(r"(?:(?:[!-~](?:[ -~]*[!-~])?)?\n)*[!-~](?:[ -~]*[!-~])?\n")


class NoYaml(ClusterkitError):
    """PyYAML is not installed."""

    exit_code = 2


def yaml_text(head: Iterable[str], documents: Iterable[Document]) -> str:
    """Write the documents, below `head` as comments. Raises NoYaml if PyYAML is missing."""
    try:
        import yaml
    except ImportError:
        raise NoYaml(
            "Manifests are written by PyYAML, which is not installed. Install it: pip install 'tf-clusterkit[engines]'"
        ) from None
    comments = "".join(f"# {line}".rstrip() + "\n" for line in head)
    width = float("inf")
    return comments + yaml.dump_all(documents, Dumper=_dumper(), sort_keys=False, explicit_start=True, width=width)


@cache
def _dumper() -> type[SafeDumper]:
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True  # an object that stands in two places is written twice

    Dumper.add_representer(str, _string)
    return Dumper


def _string(dumper: SafeDumper, text: str) -> ScalarNode:
    if _WORD.fullmatch(text) and not _NO_WORDS.fullmatch(text):
        style = None
    else:
        style = "|" if _LINES.fullmatch(text) and not text.startswith("\n") else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
