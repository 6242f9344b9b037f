"""The job file: TOML whose keys are the names of `up`'s flags."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any, cast

from clusterkit.job.options import OPTIONS, TASK_OPTIONS, GivenOptions, JobOptions, OptionEntry, OptionKind
from clusterkit.text.durations import compact, seconds
from clusterkit.text.spelling import did_you_mean
from clusterkit.words.errors import BadJob
from clusterkit.words.model import TaskType
from clusterkit.words.secrets import HIDDEN, masked, without_credentials, without_secret_arguments
from clusterkit.words.verification import request_text

TASK = "task"  # the key of the tables that hold options for single task types
_PROGRAM = (OptionEntry("program", OptionKind.PATH), OPTIONS["module"], TASK_OPTIONS["args"])
IN_FILE = tuple(entry for entry in (*_PROGRAM, *OPTIONS.values()) if entry.about.in_file)
_KNOWN = {entry.key: entry for entry in IN_FILE}
_KNOWN_OF_TASKS = {entry.key: entry for entry in TASK_OPTIONS.values()}
KEYS = (*_KNOWN, TASK)
_EXPECTED = {
    OptionKind.SWITCH: "it has to be true, false, 0 or 1",
    OptionKind.NUMBER: "input should be a valid integer",
    OptionKind.TEXTS: "input should be a valid list",
    OptionKind.VARIABLES: "input should be a valid dictionary",
}


def read_job_file(text: str, name: str) -> GivenOptions:
    """Read the options in a job file. `name` is the file's path. Raises BadJob if the file is not TOML.

    Relative paths in the file are resolved against the file's directory.
    """
    try:
        table = tomllib.loads(text)
    except ValueError as error:  # a TOMLDecodeError, or a number with thousands of digits
        raise BadJob([f"{name} is not valid TOML: {error}."]) from None
    except RecursionError:
        raise BadJob([f"{name} can't be read: its tables or arrays are nested too deeply."]) from None
    options, problems, wrong = dict[str, object](), list[str](), set[str]()
    for key, value in table.items():
        reading = _ValueReader(name)
        found = reading.tasks(value) if key == TASK else reading.entry(_KNOWN, key, value)
        if reading.problems:
            problems += reading.problems
            wrong.add(key.replace("-", "_"))
        else:
            options[key.replace("-", "_")] = found
    return GivenOptions(cast(JobOptions, options), problems, frozenset(wrong))


class _ValueReader:
    """Checks and converts values, and collects problems. The result for an invalid value must not be used."""

    def __init__(self, file: str) -> None:
        self._file, self._directory = file, PurePosixPath(file).parent
        self.problems: list[str] = []

    def tasks(self, tables: object) -> object:
        """Read the value of `task`: a table for each task type."""
        if not isinstance(tables, dict):
            return self._wrong(TASK, _EXPECTED[OptionKind.VARIABLES])
        for kind in tables.keys() - set(TaskType):
            self.problems.append(
                f"{self._file}: {TASK}.{kind} is not a task type. The types are {', '.join(TaskType)}."
            )
        return {kind: self._task(tables[kind], f"{TASK}.{kind}") for kind in TaskType if kind in tables}

    def entry(self, known: Mapping[str, OptionEntry], key: str, value: object, above: str = "") -> object:
        if key in known:
            return self._value(known[key], value, above + key)
        from clusterkit.job.other_launchers import hint_for

        keys = KEYS if known is _KNOWN else tuple(known)
        hint = hint_for(key, keys) or did_you_mean(key, keys, "The keys are")
        self.problems.append(f"{self._file}: there is no key {above}{key}. {hint}")
        return None

    def _task(self, table: object, place: str) -> object:
        if not isinstance(table, dict):
            return self._wrong(place, _EXPECTED[OptionKind.VARIABLES])
        return {key: self.entry(_KNOWN_OF_TASKS, key, value, f"{place}.") for key, value in table.items()}

    def _value(self, entry: OptionEntry, value: object, place: str) -> object:
        match entry.kind:
            case OptionKind.VARIABLES if isinstance(value, dict):
                return {name: self._text(item, f"{place}.{name}") for name, item in value.items()}
            case OptionKind.TEXTS if isinstance(value, list):
                return [self._text(item, f"{place}.{number}") for number, item in enumerate(value)]
            case OptionKind.TEXT:
                return self._text(value, place, strict=True)
            case OptionKind.PATH:
                return self._path(entry, self._text(value, place, strict=True))
            case OptionKind.DURATION:
                try:
                    return seconds(value)
                except ValueError as error:
                    return self._wrong(place, str(error))
            case OptionKind.SWITCH if isinstance(value, int) and value in (0, 1):
                return bool(value)
            case OptionKind.REQUEST:
                try:
                    return request_text(value)
                except ValueError as error:
                    return self._wrong(place, str(error))
            case OptionKind.NUMBER if type(value) is int:
                return self._number(entry, value, place)
            case OptionKind.CHOICE:
                *first, last = map(repr, entry.choices)
                fits = value in entry.choices
                return value if fits else self._wrong(place, f"input should be {', '.join(first)} or {last}")
        return self._wrong(place, _EXPECTED[entry.kind])

    def _text(self, value: object, place: str, strict: bool = False) -> str:
        """Read text or, unless `strict`, also a number, such as `LEVEL = 3` in an env table."""
        if isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool) and not strict):
            return str(value)
        return self._wrong(place, "input should be a valid string")

    def _number(self, entry: OptionEntry, value: int, place: str) -> int:
        if value < entry.about.least:
            self._wrong(place, f"input should be greater than or equal to {entry.about.least}")
        return value

    def _path(self, entry: OptionEntry, value: str) -> str:
        if not value:
            return ""  # an empty path does not mean the file's directory
        if entry.name != "python":
            return str(self._directory / value)
        relative = "/" in value and not value.startswith("/")  # an interpreter without a slash is looked up in PATH
        return f"{self._directory}/{value}" if relative else value

    def _wrong(self, place: str, why: str) -> str:
        self.problems.append(f"{self._file}: {place}: {why[:1].lower()}{why[1:].rstrip('.')}.")
        return ""


WIDTH = 100  # columns; a longer list is broken into one line per item
Hide = Callable[[OptionKind, Any], Any]
_ENTRIES = {entry.name: entry for entry in IN_FILE}
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def job_text(options: JobOptions, secrets: bool = False) -> str:
    """Write the options as TOML, with paths unchanged. Raises BadJob if a value can't be written as TOML.

    Unless `secrets` is True, hidden variables become comments, and credentials are removed from URLs.
    """
    given = cast(Mapping[str, object], options)
    hide = None if secrets else partial(_without_secrets, show=bool(options.get("show_env")))
    lines = list(_table(given, _ENTRIES, "", hide))
    tables = cast(Mapping[str, Mapping[str, object]], given.get(TASK, {}))
    for kind, table in tables.items():
        lines += _table(table, TASK_OPTIONS, f"{TASK}.{kind}", hide)
    text = "".join(f"{line}\n" for line in lines)
    if re.search("[\ud800-\udfff]", text):  # surrogates, which stand for undecodable bytes
        bad = [line.partition(" = ")[0] for line in lines if re.search("[\ud800-\udfff]", line)]
        raise BadJob([f"{name} has bytes that are not UTF-8 text, and can't be in a job file." for name in bad])
    return text


def _without_secrets(kind: OptionKind, value: Any, show: bool) -> Any:
    match kind:
        case OptionKind.VARIABLES:
            return masked(value, show)
        case OptionKind.TEXTS:
            return [*without_secret_arguments([without_credentials(str(item)) for item in value])]
        case OptionKind.TEXT | OptionKind.PATH:
            return without_credentials(str(value))
    return value


def _table(
    values: Mapping[str, object], entries: Mapping[str, OptionEntry], name: str, hide: Hide | None
) -> Iterator[str]:
    plain = [entry for key, entry in entries.items() if key in values and entry.kind is not OptionKind.VARIABLES]
    if name and plain:
        yield from ("", f"[{name}]")
    for entry in plain:
        whole = _value(entry.kind, values[entry.name])
        shown = whole if hide is None else _value(entry.kind, hide(entry.kind, values[entry.name]))
        if shown != whole:
            yield "# Credentials are hidden: use --show-secrets."
        yield f"{entry.key} = {shown}"
    if env := cast(Mapping[str, str], values.get("env", {})):
        yield from ("", f"[{name}.env]" if name else "[env]")
        for key, text in (env if hide is None else hide(OptionKind.VARIABLES, env)).items():
            yield from [f"{_key(key)} = {quoted(text)}"] if hide is None or HIDDEN not in text else _hidden(key, text)


def _value(kind: OptionKind, value: object) -> str:
    match kind:
        case OptionKind.SWITCH:
            return "true" if value else "false"
        case OptionKind.REQUEST if value in ("yes", "no"):
            return "true" if value == "yes" else "false"
        case OptionKind.REQUEST if str(value).isdecimal():
            return str(value)
        case OptionKind.DURATION:
            return quoted(compact(seconds(value)))
        case OptionKind.TEXTS:
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
    """Return text as a TOML string, with unprintable characters escaped."""
    return f'"{"".join(map(_character, text))}"'


def _character(one: str) -> str:
    if one in _SHORT or one.isprintable() or "\ud800" <= one <= "\udfff":
        return _SHORT.get(one, one)
    return f"\\u{ord(one):04x}" if ord(one) < 0x10000 else f"\\U{ord(one):08x}"
