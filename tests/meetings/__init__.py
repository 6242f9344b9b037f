"""Where two features meet: tables, written by hand, of commands and states, and of requests and timeouts."""
