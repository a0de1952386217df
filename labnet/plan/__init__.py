"""Desired and observed state of a node's network, and the operations between them."""
