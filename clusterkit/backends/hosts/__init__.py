"""Tasks on the hosts of an engine: the agent of each host, and the backend that gives them orders."""
