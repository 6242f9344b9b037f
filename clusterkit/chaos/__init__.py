"""Campaigns: run a job many times with different faults, and shrink failing schedules to the fewest faults."""
