"""A job: from options to what exactly is started for each task, and whether it can run here."""
