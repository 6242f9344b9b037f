"""Views: format events and results as text for terminals, and make no decisions about a run."""
