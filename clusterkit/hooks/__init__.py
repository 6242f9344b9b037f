"""Hooks: when a run has something to tell a command of the user, and the process that runs it."""
