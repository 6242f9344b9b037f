"""Faults: how they are written, whom they hit, and what breaks and heals a process."""
