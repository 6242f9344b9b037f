"""The backend for the hosts of an engine: the supervisor's side, which sends orders, and the agents."""
