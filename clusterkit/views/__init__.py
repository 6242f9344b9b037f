"""Views: events and results as text for terminals. They decide nothing."""
