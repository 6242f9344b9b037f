"""The ssh engine."""
