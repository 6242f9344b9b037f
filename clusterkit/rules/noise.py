"""TensorFlow's well-known noise: lines that say nothing about the job."""

from __future__ import annotations

import re

# What TensorFlow's C++ code logs at level INFO, in absl's form and in the older one.
_INFO = re.compile(r"I\d{4} [\d:.]+ +\d+ [\w./]+:\d+\]|\d{4}-\d\d-\d\d [\d:.]+: I \w+/")

_KNOWN = re.compile(
    r"oneDNN custom operations are on"
    r"|This TensorFlow binary is optimized to use available CPU instructions"
    r"|To enable the following instructions:"
    r"|Could not find cuda drivers on your machine"
    r"|failed call to cuInit"
    r"|Unable to register cu(?:DNN|FFT|BLAS) factory"
    r"|computation placer already registered"
    r"|TF-TRT Warning"
    r"|All log messages before absl::InitializeLog\(\) is called are written to STDERR"
    r"|Skipping registering GPU devices"
    r"|^/job:\w+/replica:\d+/task:\d+$"  # the second line of an INFO message
    r"|Input of GeneratorDatasetOp::Dataset will not be optimized"
    r"|Local rendezvous is aborting with status: (?:OUT_OF_RANGE|ABORTED: Cleanup)"
)

_OPTIONS = "SessionOptions: "  # a protobuf in its text form follows, over many lines
_PROTO = re.compile(r"\s*(?:\w+ \{|\}|\w+: .*|)")


class NoiseFilter:
    """Tells noise from the rest in one attempt's output. It remembers when it is inside a printed protobuf."""

    def __init__(self) -> None:
        self._in_proto = False

    def is_noise(self, line: str) -> bool:
        """Whether the console hides the line by default; the log file has it."""
        if self._in_proto and _PROTO.fullmatch(line):
            return True
        info = _INFO.match(line) is not None
        self._in_proto = info and _OPTIONS in line
        return info or _KNOWN.search(line) is not None
