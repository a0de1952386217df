"""System calls that Python has no name for: clone, setns, mount, pidfd, capabilities.

The lowest layer. It knows the kernel and nothing of labnet above it.
"""
