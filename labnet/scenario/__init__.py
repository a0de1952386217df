"""Scenario files: YAML in, a checked Lab and Kubernetes objects out."""
