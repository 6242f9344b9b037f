"""The state machine: holds the cluster's state and alone changes it. Takes events, returns actions, has no effects."""
