"""The virtual network: gives each task an address, and impairs traffic between tasks on request."""
