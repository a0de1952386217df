"""Kubernetes objects: the registry of resources, labels, selectors, patches, validation."""
