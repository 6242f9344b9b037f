"""Explains failures of distributed programs: matches a run or a log against the rows of a table of known failures."""
