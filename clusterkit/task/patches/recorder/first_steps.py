"""What runs that end early need, for `up --verify` and exams: the first step's line, and the end after some steps."""

from __future__ import annotations

import os
import sys
from typing import Any


class FirstSteps:
    """Writes to the record of a task, given the module of the record's output."""

    def __init__(self, output_file: Any, load: Any) -> None:
        self.output_file, self.output, self.load = output_file, output_file.output, load

    def end_program(self, recorder: Any) -> None:
        """End the program after the last step to compare, as soon as all workers have made the step.

        The exit skips the program's own exit handlers and the rest of its callbacks, which may write files. A worker
        that left earlier would break a collective operation that its peers have not finished.
        """
        recorder.end()
        self.output.write("stopped", step=recorder.step)
        self.output.await_peers(self.output_file.gang_of(os.environ.get("TF_CONFIG", "")))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def record_place(self) -> None:
        """Record the line of the program at which the first step is made."""
        _, place = self.load("task/patches/refusals").library_call(sys._getframe(1))
        self.output.write("place", place=place.rstrip(","))

    def record_rates(self) -> None:
        """Record the learning rates that the program has as numbers of its own."""
        is_library = self.load("task/patches/refusals")._is_of_a_library
        values = self.load("task/patches/recorder/rates").rates_in(sys._getframe(1), is_library)
        if values:
            self.output.write("rates", values=values)

    def record_precision(self) -> None:
        """Record the type in which Keras computes, if it is less exact than float32, which explains differences."""
        for module in filter(None, (sys.modules.get(name) for name in ("keras", "tf_keras"))):
            name = str(module.mixed_precision.global_policy().compute_dtype)
            if name in ("float16", "bfloat16"):
                self.output.write("precision", name=name)
