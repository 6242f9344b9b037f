"""Runs from outside: the run store, a journal that is followed, the control client, and cleaning up."""
