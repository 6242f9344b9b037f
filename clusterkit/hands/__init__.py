"""The hands: effects on the world, one noun a file."""
