"""Runs a training program under TensorFlow's multi_process_runner, outside Bazel.

python mpr_job.py '{"cluster": {"worker": ["host:port"]}, "argv": ["stamped.py", ...], "restart": false}'
"""

from __future__ import annotations

import json
import sys

from tensorflow.python.distribute import multi_process_lib, multi_process_runner


def task(argv: list[str]) -> None:
    """What every process runs; it is pickled, and this module's names do not come with it."""
    import os
    import runpy
    import sys
    from pathlib import Path

    os.setsid()  # as the other launchers do: the kernel shares out the processors among sessions
    sys.argv[:] = argv
    sys.path.insert(0, str(Path(argv[0]).parent))
    runpy.run_path(argv[0], run_name="__main__")


def main() -> None:
    """See the module's docstring."""
    # What test_main() does is to find the test's binary among Bazel's, to start it for each process. Python does.
    multi_process_lib._test_main_called = True
    job = json.loads(sys.argv[1])
    runner = multi_process_runner.MultiProcessRunner(
        task, job["cluster"], args=(job["argv"],), auto_restart=job["restart"]
    )
    runner.start()
    runner.join(600)


if __name__ == "__main__":
    main()
