"""The ledger: the attempts, incidents, status and account of a run, derived from its events."""
