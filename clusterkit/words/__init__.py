"""The words: frozen values that every other floor speaks in. Standard library only."""
