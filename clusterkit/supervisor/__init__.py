"""The supervisor: prepares a job, guards the process that runs it, and loops: events in, actions out."""
