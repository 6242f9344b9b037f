"""Hosts of an engine: the connection between the supervisor and the agents on them."""
