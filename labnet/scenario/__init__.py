"""Scenario files: YAML in, a checked Lab and Kubernetes objects out."""

from labnet.scenario.load import load

__all__ = ["load"]
