"""Patches that record what a program computes, step by step, for `--record` and for the exam."""
