"""Stand-ins for hosts on this machine, to try out what happens when a host is lost."""
