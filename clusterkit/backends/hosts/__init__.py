"""The backend for the hosts of an engine: the agent of each host, and the supervisor's side, which sends orders."""
