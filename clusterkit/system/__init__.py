"""What Linux offers below all of this: processes, /proc, ports, sweeping, threads under a barrier."""
