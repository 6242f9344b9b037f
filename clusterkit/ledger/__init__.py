"""Recovery: what failed in a run, how it recovered, how long that took, and what it cost."""
