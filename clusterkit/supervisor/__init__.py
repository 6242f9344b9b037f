"""The supervisor: prepares a job, guards the process that runs it, and turns the run's events into actions."""
