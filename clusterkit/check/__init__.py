"""Reading a program: what its text says of how it will fare in a job, before it starts and after it failed."""
