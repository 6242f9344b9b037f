"""Slurm: the rules of its words, and its client commands."""
