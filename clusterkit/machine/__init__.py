"""The machine: the cluster's state, and the only place where it changes. Events in, actions out; no effects."""
