"""`clusterkit doctor`: collects facts about this machine, and judges them by rules without side effects."""
