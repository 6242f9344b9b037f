"""The parts of the machine that watch for progress: stalls, stragglers, tasks that train alone, and time limits."""
