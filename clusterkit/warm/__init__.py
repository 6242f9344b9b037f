"""Warm start: fork servers, each for one run; warm servers, each shared by many runs; and their clients."""
