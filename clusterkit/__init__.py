"""clusterkit: a local multi-worker cluster orchestrator for TensorFlow."""

__version__ = "0.1.0"
