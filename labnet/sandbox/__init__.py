"""Pod sandboxes and containers as plain values, and how they are planned."""
