"""The state machine: owns the cluster's state, takes events, and returns actions. It has no side effects."""
