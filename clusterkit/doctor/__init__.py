"""`clusterkit doctor`: collects facts about this machine, and evaluates the facts by rules without side effects."""
