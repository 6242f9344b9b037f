"""Linux as the other rooms use it: processes, /proc, ports, sweeping, and threads whose crashes are reported."""
