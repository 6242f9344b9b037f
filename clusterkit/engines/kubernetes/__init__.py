"""Kubernetes by manifest: documents that bring a job up as a JobSet of a supervisor and agents."""
