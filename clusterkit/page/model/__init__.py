"""What the page shows, as JSON: the facts of a run, of a campaign and of all runs, computed from their journals."""
