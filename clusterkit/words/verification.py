"""The option --verify, and the verdict on whether a job's first steps equal those of one process."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

STEPS = 5  # how many steps are compared unless --verify names a number
MOST_STEPS = 1000  # states and rows of more steps would not be recorded
_REQUEST = re.compile(r"yes|no|(?P<steps>\d{1,9})|required(?::(?P<required_steps>\d{1,9}))?")
EXPECTED = "yes, no, a number of steps, required, or required:20"


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """What --verify requests: how many steps to compare, and whether the job may start only if they are equal."""

    steps: int = STEPS
    required: bool = False


def is_request(word: str) -> bool:
    """Return whether a word is a value of --verify, and not, for example, the name of a program."""
    return _REQUEST.fullmatch(word) is not None


def parse_request(text: str) -> VerifyRequest | None:
    """Parse a value of --verify. Return None for `no`. Raises ValueError."""
    match = _REQUEST.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a value of --verify. Give {EXPECTED}.")
    if text == "no":
        return None
    steps = match["steps"] or match["required_steps"]
    request = VerifyRequest(STEPS if steps is None else int(steps), text.startswith("required"))
    if not 1 <= request.steps <= MOST_STEPS:
        raise ValueError(f"--verify compares 1 to {MOST_STEPS} steps, not {request.steps}.")
    return request


def request_text(value: object) -> str:
    """Return a value of a job file or of Python, such as True or 20, as the text of the option. Raises ValueError."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value) if isinstance(value, int | str) else ""
    parse_request(text)
    return text


class Equality(enum.StrEnum):
    """What the comparison of a job's first steps with one process has shown."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdict of --verify.

    `steps` is the number of compared steps. `text` is a sentence that says what differs, or a clause that says why
    nothing could be compared. `remedy` is advice, `place` the line of the program at which the first step was made,
    such as `train.py, line 12`. `cached` is True if an earlier run with the same program, arguments, versions and tasks
    reached the verdict.
    """

    equality: Equality
    steps: int
    text: str = ""
    remedy: str = ""
    place: str = ""
    cached: bool = False

    @property
    def differs(self) -> bool:
        return self.equality is Equality.DIFFERENT

    @property
    def headline(self) -> str:
        """Return the verdict as one line."""
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        earlier = " (found earlier)" if self.cached else ""
        match self.equality:
            case Equality.EQUAL:
                return f"verified: {steps} equal to one process{earlier}"
            case Equality.DIFFERENT:
                return f"not verified: the first {steps} differ from those of one process{earlier}"
            case Equality.NOT_COMPARABLE:
                return f"not verified: not comparable with one process, since {self.text.rstrip('.')}"

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the verdict as lines: the headline, what was found, where, and what to do."""
        found = list[str]()
        if self.equality is Equality.DIFFERENT:
            found += [self.text, f"The first step is made at {self.place}." if self.place else ""]
        if self.equality is not Equality.EQUAL and self.remedy:
            found.append(f"→ {self.remedy}")
        return (self.headline, *(f"    {line}" for line in found if line))
