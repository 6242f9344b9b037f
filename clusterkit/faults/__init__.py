"""Faults: which tasks they target, and how they are injected and healed."""
