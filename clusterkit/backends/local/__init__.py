"""Processes of this machine: how tasks are started, watched, signalled, swept, and looked into."""
