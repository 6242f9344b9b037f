"""The connection between the supervisor and the agents on an engine's hosts.

Listener (supervisor) and Dialer (agent) each have one thread, and at most one Link at a time for each Connection. A
Link is a TLS socket that carries frames. A Session outlives its links: it holds the agent's lease, and a Stream, which
repeats messages that were lost in a cut.
"""
