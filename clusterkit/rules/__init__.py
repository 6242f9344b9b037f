"""The rules: pure functions from values to values, each tested by a table."""
