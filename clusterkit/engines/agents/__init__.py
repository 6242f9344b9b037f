"""Agents that somebody else starts: by hand, or Kubernetes from the manifests."""
