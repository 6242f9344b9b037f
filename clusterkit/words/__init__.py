"""The vocabulary: frozen values that all other rooms use. Standard library only."""
