"""Hosts that the user logs in to with ssh."""
