"""`clusterkit doctor`: collects facts about this machine, and judges them with pure rules."""
