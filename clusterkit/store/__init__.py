"""Access to runs from other processes: the run store, following a run, the control client, and cleaning up."""
