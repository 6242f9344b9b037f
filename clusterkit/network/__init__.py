"""The virtual network: gives each task an address, and impairs the traffic between any two tasks on request."""
