"""The backend for an engine's hosts: the supervisor's side, which sends orders, and the agents."""
