"""The commands, each group of them in a file that is imported only when one of its commands is used."""
