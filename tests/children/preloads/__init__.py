"""Modules for `--preload`: one that is good, and some that are not."""
