"""The backend for this machine: starts, watches, signals, sweeps and inspects tasks as local processes."""
