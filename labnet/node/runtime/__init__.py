"""Container runtimes: what starts, stops and lists a node's sandboxes and containers."""
