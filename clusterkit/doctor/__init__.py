"""`clusterkit doctor`: collects facts about this machine, and evaluates them by rules without side effects."""
