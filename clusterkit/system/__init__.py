"""Access to Linux for the other packages: processes, /proc, ports, files, polling, and threads that report crashes."""
