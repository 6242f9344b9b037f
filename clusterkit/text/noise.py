"""TensorFlow's well-known noise: log lines that are not about the job."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Log lines of TensorFlow's C++ code at level INFO, in absl's format and in the older format.
_INFO = re.compile(r"I[01]\d{3} [\d:.]+ +\d+ [\w./]+:\d+\]|\d{4}-\d\d-\d\d [\d:.]+: I \w+/")

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
    r"|Input of GeneratorDatasetOp::Dataset will not be optimized"
    r"|Local rendezvous is aborting with status: (?:OUT_OF_RANGE|CANCELLED|ABORTED: (?:Cleanup|Step -?\d+ cancelled))"
    # The connection to a peer is gone: clusterkit reports which peer, and whether the loss matters.
    r"|(?:Local rendezvous is aborting with status: |Aborting Ring\w+ with |StartAbort |Failed to register function "
    r"remotely due to )(?:UNAVAILABLE: |Collective ops is aborted by: )*(?:recvmsg:|Socket closed|"
    r"[Ff]ailed to connect|Failed to send RPC)"
    r"|oneDNN supports DT_\w+ only on platforms with"
    r"|RecvTensor cancelled for "
    r"|Ignoring an error encountered when deleting remote tensors handles"
    r"|Type inference failed\. .* INVALID_ARGUMENT: expected PRODUCT element type for input"
    r"|UserWarning: To make it possible to preserve tf\.data options across serialization boundaries"
    r"|Device filters can only be specified when initializing the cluster"
    r"|UserWarning: `shuffle=True` was passed, but will be ignored since the data `x` was provided as a tf\.data"
    r"|preemption_notifier\.cc:\d+\] SIGTERM caught at "
)

# Further lines of a message, which are hidden or shown together with the first line.
_CONTINUED = re.compile(
    r"/job:\w+/replica:\d+/task:\d+$|\t \[\[|Additional GRPC error information from remote target|:UNKNOWN:|:\{|$"
    r"|  self\.data_adapter = |The error could be from a previous operation\.|The tasks have crashed\."
    r"|type_id: TFT_|\twhile inferring type of node |  warnings\.warn\("
)

_OPTIONS = "SessionOptions: "  # followed by a protobuf in text form, over many lines
_PROTO = re.compile(r"\s*(?:\w+ \{|\}|\w+: .*|)")


Clues = tuple[tuple[bytes, tuple[bytes, ...]], ...]  # pairs: a letter, and texts that contain the letter

# Each line of noise contains one of these texts.
_CLUES: Clues = (
    (b"I", (b": I ", b"cuInit", b"::InitializeLog", b"Input of Gen", b"Ignoring an error")),
    (b"D", (b"oneDNN", b"Device filters can")),
    (b"R", (b"RecvTensor cancelled",)),
    (b"M", (b"SIGTERM caught",)),
    (b"A", (b"Aborting Ring", b"StartAbort")),
    (b"F", (b"Failed to register function",)),
    (b"T", (b"This TensorFlow", b"To enable the", b"TF-TRT", b"Type inference")),
    (b"U", (b"Unable to register cu", b"GPU devices", b"UserWarning: `shuffle", b"UserWarning: To make")),
    (b"C", (b"Could not find cuda",)),
    (b"L", (b"Local rendezvous",)),
    (b"y", (b"computation placer already",)),
)
_INFO_CLUE = re.compile(rb"\nI[01]")  # a single search is faster than two


def has_clue(whole: bytes, clues: Clues) -> bool:
    """Return whether one of the texts occurs. A search for a letter is ten times as fast as a search for a word."""
    return any(letter in whole and any(text in whole for text in texts) for letter, texts in clues)


def is_info(line: str) -> bool:
    """Return whether TensorFlow's C++ code logged the line at level INFO."""
    return _INFO.match(line) is not None


class NoiseFilter:
    """Detects noise in one attempt's output, including messages of several lines."""

    def __init__(self) -> None:
        self._in_noise = False
        self._in_proto = False

    def is_noise(self, line: str) -> bool:
        """Return whether the console hides the line by default; the log file contains every line."""
        if (self._in_proto and _PROTO.fullmatch(line)) or (self._in_noise and _CONTINUED.match(line)):
            return True
        info = is_info(line)
        self._in_proto = info and _OPTIONS in line
        self._in_noise = info or _KNOWN.search(line) is not None
        return self._in_noise

    def may_hide(self, whole: bytes) -> bool:
        """Return whether `whole` may contain noise. In `whole`, a newline precedes and follows each line.

        If the result is False, `is_noise` need not be called for these lines.
        """
        return self._in_noise or has_clue(whole, _CLUES) or (b"I" in whole and _INFO_CLUE.search(whole) is not None)


def without_noise(lines: Iterable[str]) -> list[str]:
    noise = NoiseFilter()
    return [line for line in lines if not noise.is_noise(line)]
