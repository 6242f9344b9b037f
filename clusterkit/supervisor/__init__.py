"""The supervisor: prepares a job, guards the process that runs it, and loops: event in, actions out, hands act."""
