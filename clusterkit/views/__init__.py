"""Views: modules that format events and results as text for terminals. Views make no decisions about a run."""
