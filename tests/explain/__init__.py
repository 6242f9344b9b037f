"""Tests of the table of explanations."""
