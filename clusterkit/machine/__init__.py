"""The machine: the cluster's state, and the only place that changes it. Takes events, returns actions, no effects."""
