"""Runs from outside: the run store, following a run, the control client, and cleaning up."""
