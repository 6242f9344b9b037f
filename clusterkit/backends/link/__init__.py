"""The connection between the supervisor and the agents on an engine's hosts.

Listener (supervisor) and Dialer (agent) each have one thread and one Link at a time for each Connection. A Link is a
socket with Tls, which carries frames. What outlives a link is in the Session: a Stream, which sends again what was lost
in a cut, and the agent's lease.
"""
