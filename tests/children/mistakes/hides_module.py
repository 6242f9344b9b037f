"""Has a file random.py beside it, which hides Python's."""

from pathlib import Path

Path(__file__).with_name("random.py").touch()

import tensorflow as tf  # noqa: E402

print(tf.__version__)
