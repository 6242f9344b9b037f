"""A rule about forked processes, which lack the threads that TensorFlow needs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from clusterkit.check.case import Case, Hit
from clusterkit.check.rules.replicas import function_of, reached
from clusterkit.check.source import Source

_STARTS = {"multiprocessing.Process", "multiprocessing.Pool", "concurrent.futures.ProcessPoolExecutor"}
_TAKERS = ("map", "imap", "imap_unordered", "starmap", "apply", "apply_async", "map_async", "submit")
_IMPORTS = re.compile(r"\bimport (?:tensorflow|keras)\b|\bfrom (?:tensorflow|keras)\b")
_OTHERWISE = re.compile("spawn|forkserver|get_context")  # words in code that starts processes without a fork
# TensorFlow's functions that need none of its threads: they read, write and encode files of records.
_PLAIN = re.compile(r"\btf\.(?:io\.(?:TFRecord\w+|gfile\b)|train\.(?:\w*Example|Features?|\w+List)\b)")
_USES = re.compile(r"\b(?:tf|tensorflow|keras)\.|\.(?:predict|fit|evaluate)\(|\bmodel\(")


def forks(case: Case) -> Iterator[Hit]:
    """Find forked processes that use TensorFlow or load the data for `fit`."""
    for source in case.sources if not any(source.mentions(_OTHERWISE) for source in case.sources) else ():
        for name, call in source.calls():
            named = {keyword.arg: keyword.value for keyword in call.keywords}
            several = named.get("use_multiprocessing")
            # A run with such code may succeed, so the finding is only used to explain a failure.
            if isinstance(several, ast.Constant) and several.value is True and not case.strict:
                what = "This loads the data in forked processes, which lack TensorFlow's threads and so may hang."
                advice = "Load the data in threads: pass workers=4, and remove use_multiprocessing."
                yield Hit(source.location(call), what, advice)
            elif name in _STARTS and "mp_context" not in named and _runs_tensorflow(source, named.get("target")):
                what = "This forks a process that uses TensorFlow, but lacks TensorFlow's threads and so may hang."
                advice = (
                    'Start the process with multiprocessing.get_context("spawn"), under if __name__ == "__main__", so '
                    "that the process imports TensorFlow itself."
                )
                yield Hit(source.location(call), what, advice)


def _runs_tensorflow(source: Source, target: ast.AST | None) -> bool:
    """Return whether the process's function, or a function that the file passes to a pool, uses TensorFlow."""
    given = (
        [call.args[0] for _, call in source.calls() if call.args and getattr(call.func, "attr", "") in _TAKERS]
        if target is None
        else [target]
    )
    functions = [function for each in given if (function := function_of(source, each)) is not None]
    texts = [ast.unparse(each) for function in functions for each in reached(source, function)]
    # A process that imports TensorFlow itself, in a program that does not, has the threads.
    if any(_IMPORTS.search(text) for text in texts) and not _imports_tensorflow(source):
        return False
    return any(_USES.search(_PLAIN.sub("", text)) for text in texts)


def _imports_tensorflow(source: Source) -> bool:
    """Return whether the file imports TensorFlow outside of functions."""
    module = source.nodes[0]
    body = module.body if isinstance(module, ast.Module) else []
    return any(isinstance(node, ast.Import | ast.ImportFrom) and _IMPORTS.search(ast.unparse(node)) for node in body)
