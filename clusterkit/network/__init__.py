"""The virtual network: an address for each task, and what can go wrong between two of them."""
