"""Writes options as a job file: the TOML that `read_job_file` reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

from clusterkit.job.jobfile import IN_FILE, TASK
from clusterkit.job.options import TASK_OPTIONS, Entry, JobOptions, Kind
from clusterkit.text.durations import compact, seconds
from clusterkit.words.errors import BadJob
from clusterkit.words.secrets import HIDDEN, masked, without_credentials

WIDTH = 100  # columns of a list in one line
Hide = Callable[[Kind, Any], Any]
_ENTRIES = {entry.name: entry for entry in IN_FILE}
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def job_text(options: JobOptions, secrets: bool = False) -> str:
    """Write the options as TOML, with the paths as they are.

    Unless `secrets`, hidden variables are comments, and URLs have no credentials. Raises BadJob if TOML can't hold a
    value.
    """
    given = cast(Mapping[str, object], options)
    hide = None if secrets else partial(_without_secrets, show=bool(options.get("show_env")))
    lines = list(_table(given, _ENTRIES, "", hide))
    tables = cast(Mapping[str, Mapping[str, object]], given.get(TASK, {}))
    for kind, table in tables.items():
        lines += _table(table, TASK_OPTIONS, f"{TASK}.{kind}", hide)
    text = "".join(f"{line}\n" for line in lines)
    if re.search("[\ud800-\udfff]", text):  # they stand for bytes
        bad = [line.partition(" = ")[0] for line in lines if re.search("[\ud800-\udfff]", line)]
        raise BadJob([f"{name} has bytes that are not UTF-8 text, and can't be in a job file." for name in bad])
    return text


def _without_secrets(kind: Kind, value: Any, show: bool) -> Any:
    """The value of an option without secrets."""
    match kind:
        case Kind.VARIABLES:
            return masked(value, show)
        case Kind.TEXTS:
            return [without_credentials(str(item)) for item in value]
        case Kind.TEXT | Kind.PATH:
            return without_credentials(str(value))
    return value


def _table(values: Mapping[str, object], entries: Mapping[str, Entry], name: str, hide: Hide | None) -> Iterator[str]:
    plain = [entry for key, entry in entries.items() if key in values and entry.kind is not Kind.VARIABLES]
    if name and plain:
        yield from ("", f"[{name}]")
    for entry in plain:
        whole = _value(entry.kind, values[entry.name])
        shown = whole if hide is None else _value(entry.kind, hide(entry.kind, values[entry.name]))
        if shown != whole:
            yield "# The credentials in a URL are hidden: use --show-secrets."
        yield f"{entry.key} = {shown}"
    if env := cast(Mapping[str, str], values.get("env", {})):
        yield from ("", f"[{name}.env]" if name else "[env]")
        for key, text in (env if hide is None else hide(Kind.VARIABLES, env)).items():
            yield from [f"{_key(key)} = {quoted(text)}"] if hide is None or HIDDEN not in text else _hidden(key, text)


def _value(kind: Kind, value: object) -> str:
    match kind:
        case Kind.SWITCH:
            return "true" if value else "false"
        case Kind.DURATION:
            return quoted(compact(seconds(value)))
        case Kind.TEXTS:
            items = [quoted(str(item)) for item in cast(list[str], value)]
            line = f"[{', '.join(items)}]"
            return line if len(line) <= WIDTH else "".join(["[\n", *(f"    {item},\n" for item in items), "]"])
    return str(value) if isinstance(value, int) else quoted(str(value))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else quoted(name)


def _hidden(name: str, shown: str) -> Iterator[str]:
    yield "# The value is hidden: use --show-env, or pass it on with `up --env NAME`."
    yield f"# {_key(name)} = {quoted(shown)}"


def quoted(text: str) -> str:
    """A TOML string. Unprintable characters are escaped, so that it can be printed and read again."""
    return f'"{"".join(map(_character, text))}"'


def _character(one: str) -> str:
    if one in _SHORT or one.isprintable() or "\ud800" <= one <= "\udfff":
        return _SHORT.get(one, one)
    return f"\\u{ord(one):04x}" if ord(one) < 0x10000 else f"\\U{ord(one):08x}"
