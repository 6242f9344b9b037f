"""Hooks: the user's commands that run when certain events of a run occur, and the process that runs the commands."""
