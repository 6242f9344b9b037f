"""Recovery: from the journal to what failed, which fault explains it, and what it cost."""
