"""The table of what goes wrong in distributed programs, and where failures and logs are looked up in it."""
