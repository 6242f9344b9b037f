"""Engines: what owns the hosts of a run, and starts an agent on each."""
