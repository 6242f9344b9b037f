"""Warm start: fork servers of one run, warm servers of many runs, and their clients."""
