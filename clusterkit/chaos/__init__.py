"""Campaigns: run a job many times with different faults, and shrink what fails to the smallest set of faults."""
