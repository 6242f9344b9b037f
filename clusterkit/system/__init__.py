"""Access to Linux for the other rooms: processes, /proc, ports, files, polling, and threads that report crashes."""
