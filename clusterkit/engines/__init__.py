"""Engines: interfaces to systems such as Slurm, which own the hosts of a run and start an agent on each host."""
