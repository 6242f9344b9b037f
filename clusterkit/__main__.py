"""The `clusterkit` command, which `python -m clusterkit` runs, too."""

import signal


def main() -> None:
    """Run the command line of this process: the entry point of the console script."""
    # Ctrl-C during the imports ends the command without a traceback. `cli.run` then sets a handler of its own.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from clusterkit.cli import main as run

    run()


if __name__ == "__main__":
    main()
