"""Explains failures of distributed programs by matching a run or a log against a table of known failures."""
