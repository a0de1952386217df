"""A Kubernetes API client: requests, list/watch, informers."""
