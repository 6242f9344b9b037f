"""Engines: what owns the hosts of a job that has outgrown one machine, and starts an agent on each."""
