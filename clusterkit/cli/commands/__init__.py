"""The commands. Each file holds related commands, and is imported only when one of them is used."""
