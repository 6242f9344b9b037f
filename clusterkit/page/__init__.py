"""The dashboard: a page that shows runs while they are live and afterwards, and acts on them if it is allowed to."""
