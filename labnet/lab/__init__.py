"""The composition root: sandbox, PID 1, underlay, components, state directory."""
