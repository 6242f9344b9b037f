"""Campaigns: run a job many times with different faults, and reduce failing schedules to as few faults as possible."""
