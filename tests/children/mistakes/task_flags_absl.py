"""Wants to be told its task with absl's flags."""

import tensorflow as tf  # noqa: F401
from absl import app, flags

flags.DEFINE_string("job_name", None, "ps or worker")
flags.DEFINE_integer("task_index", None, "the index of this task")
flags.mark_flags_as_required(["job_name", "task_index"])
app.run(lambda _: None)
