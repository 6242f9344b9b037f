"""Linux for the other rooms: processes, /proc, ports, files, polling, and threads whose crashes are reported."""
