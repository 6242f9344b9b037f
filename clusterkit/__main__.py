"""`python -m clusterkit` is the `clusterkit` command."""

from clusterkit.cli import main

if __name__ == "__main__":
    main()
