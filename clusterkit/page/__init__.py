"""The dashboard: a page that shows live and finished runs and, if allowed, controls runs."""
