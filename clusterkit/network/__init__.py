"""The virtual network: an address for each task, and a switch that can impair the traffic between any two of them."""
