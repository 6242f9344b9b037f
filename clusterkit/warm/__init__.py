"""Warm start: fork servers of a run and of many runs, and the side that asks them."""
