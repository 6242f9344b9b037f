"""Campaigns: one job run many times, broken differently in each, and what fails shrunk to its cause."""
